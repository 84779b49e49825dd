import { describeClient } from '../helpers/client-contract.ts';
import { python } from './toolchains.ts';

describeClient({
  name: 'openrouter for Python',
  version: '1.3.84',
  ...python('openrouter', 'openrouter_client.py'),
  checks: [
    'models',
    'model',
    'credits',
    'completion',
    'stream',
    'stream_usage',
    'tool',
    'tool_streamed',
    'structured',
    'generation',
    'key',
    'activity',
    'abort',
    '401',
    '402',
    '404',
    '404_generation',
  ],
});
