import { describeClient } from '../helpers/client-contract.ts';
import { describeShownProgram } from './shown-program.ts';
import { python } from './toolchains.ts';

const CHECKS = [
  'models',
  'model',
  'completion',
  'raw_response',
  'stream',
  'stream_usage',
  'stream_helper',
  'tool',
  'tool_streamed',
  'structured',
  'structured_streamed',
  'structured_by_schema',
  'abort',
  'timeout',
  'cut',
  'busy',
  'busy_stream',
  'untold',
  'async_completion',
  'async_stream',
  'async_tool_streamed',
  'async_structured',
  'async_cancelled',
  '401',
  '402',
  '402_stream',
  '404',
  '400',
  '500',
];

const VERSION_2 = python('openai-2', 'openai_client.py');
const VERSION_3 = python('openai-3', 'openai_client.py');

describeClient({ name: 'openai for Python', version: '2.54.0', ...VERSION_2, checks: CHECKS });
describeClient({ name: 'openai for Python', version: '3.3.0', ...VERSION_3, checks: CHECKS });

describeShownProgram('Python', VERSION_2);
describeShownProgram('Python', VERSION_3);
