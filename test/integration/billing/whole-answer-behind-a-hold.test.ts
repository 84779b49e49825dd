import { afterEach, expect, it } from 'vitest';

import type { Extend, ExtendResult } from '../../../src/ledger/contract/ledger-store.ts';
import { MemoryStore } from '../../../src/ledger/stores/memory/memory-store.ts';
import { type Gateway, PRICING, startGateway } from '../../helpers/gateway.ts';
import { DONE, event, text } from '../../helpers/provider.ts';

/** A store that answers a turn of the event loop later, as one does that is another process. */
class LateStore extends MemoryStore {
  override async extend(command: Extend): Promise<ExtendResult> {
    for (let turns = 0; turns < 50; turns++) await new Promise((resolve) => setImmediate(resolve));
    return super.extend(command);
  }
}

let gateway: Gateway;

afterEach(async () => {
  await gateway.close();
});

it('is whole, and charged as whole, where its last piece waited for an adaptive hold', async () => {
  const models = {
    'acme/fast': { targets: ['loopback/upstream-model'], pricing: PRICING, maxOutputTokens: 100_000 },
  };
  const store = new LateStore();
  gateway = await startGateway({ store, holdMode: 'adaptive', models }, undefined, '10');
  const usage = event({
    choices: [],
    usage: { prompt_tokens: 9, completion_tokens: 5000, total_tokens: 5009 },
  });
  const stream = [text('a'), text('abcd', 'stop'), usage, DONE].join('');
  // Its last chunk and its end are read together.
  gateway.provider.script = (response) => {
    response.writeHead(200, { 'content-type': 'text/event-stream' });
    response.end(stream);
  };
  const response = await gateway.post({
    model: 'acme/fast',
    stream: true,
    stream_options: { include_usage: true },
    messages: [{ role: 'user', content: 'hi' }],
  });
  expect(await response.text()).toBe(stream);
  await gateway.router.close();
  expect(gateway.settled).toMatchObject([{ ending: 'finished', usageSource: 'upstream' }]);
});
