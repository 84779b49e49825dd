import { describeClient } from '../helpers/client-contract.ts';
import { python } from './toolchains.ts';

const LITELLM = python('litellm', 'litellm_client.py');
const CHECKS = [
  'completion',
  'stream',
  'stream_usage',
  'tool',
  'tool_streamed',
  'structured',
  'abort',
  'cancelled',
  'cut',
  'busy',
  'untold',
  'parallel',
  '401',
  '402',
  '404',
  '400',
  '500',
];

describeClient({
  name: 'LiteLLM',
  version: '1.83.0',
  ...LITELLM,
  // Its list of prices is in the package: it need not be fetched.
  env: { LITELLM_LOCAL_MODEL_COST_MAP: 'True' },
  checks: ['openai', 'openrouter'].flatMap((prefix) => CHECKS.map((check) => `${prefix}/ ${check}`)),
});
