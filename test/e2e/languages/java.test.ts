import { describeClient } from '../helpers/client-contract.ts';
import { describeShownProgram } from './shown-program.ts';
import { java } from './toolchains.ts';

const JAVA = java();

describeClient({
  name: 'openai for Java',
  version: '4.101.0',
  ...JAVA,
  checks: [
    'models',
    'model',
    'completion',
    'stream',
    'stream_usage',
    'tool',
    'tool_streamed',
    'structured',
    'abort',
    'timeout',
    'cut',
    'busy',
    'untold',
    'async',
    '401',
    '402',
    '404',
    '400',
    '500',
  ],
});

describeShownProgram(
  'Java',
  JAVA,
  (lines) => `
import com.openai.client.OpenAIClient;
import com.openai.client.okhttp.OpenAIOkHttpClient;
import com.openai.core.http.StreamResponse;
import com.openai.models.chat.completions.ChatCompletionChunk;
import com.openai.models.chat.completions.ChatCompletionCreateParams;

public class Program {
  public static void main(String[] args) {
    ${lines}
    System.exit(0);
  }
}
`,
);
