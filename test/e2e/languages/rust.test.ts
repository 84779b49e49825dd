import { describeClient } from '../helpers/client-contract.ts';
import { describeShownProgram } from './shown-program.ts';
import { rust } from './toolchains.ts';

const RUST = rust();

describeClient({
  name: 'async-openai for Rust',
  version: '0.43.0',
  ...RUST,
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
    'cancel',
    'cut',
    'busy',
    'untold',
    'parallel',
    '401',
    '402',
    '404',
    '400',
  ],
});

describeShownProgram(
  'Rust',
  RUST,
  (lines) => `
#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    ${lines}
    Ok(())
}
`,
);
