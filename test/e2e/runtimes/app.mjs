// A router behind the server that the first argument names. Its address, and what was settled, are lines of its
// output; lines of its input call functions of the router, for a store that lives in this process alone.
import * as http from 'node:http';
import { createInterface } from 'node:readline';

import { createChatCompletionsRouter } from 'chat-completions-router';

const router = createChatCompletionsRouter({
  store: process.env.CREDITS_STORE,
  providers: {
    loopback: {
      baseURL: process.env.PROVIDER_URL,
      apiKey: process.env.PROVIDER_KEY,
      // As the in-process gateway of the contract has it.
      onDisconnect: 'abort',
    },
  },
  models: {
    'acme/fast': {
      targets: ['loopback/upstream-model'],
      pricing: { input: '1', output: '3', cachedInput: '0.1' },
      contextWindow: 8192,
      maxOutputTokens: 1000,
    },
  },
  // Keys may be revoked by another process, of which this one hears when it asks the store again.
  keyCacheMs: 1,
  hooks: { onSettled: (settled) => tell('settled', settled) },
});

function tell(what, about) {
  console.log(`${what} ${JSON.stringify(about)}`);
}

const SERVERS = {
  'node:http': async () => {
    const server = http.createServer(router);
    await new Promise((resolve) => server.listen(0, '127.0.0.1', resolve));
    return server.address().port;
  },
  'Bun.serve': () => Bun.serve({ port: 0, hostname: '127.0.0.1', fetch: router.fetch }).port,
  'Deno.serve': () =>
    Deno.serve({ port: 0, hostname: '127.0.0.1', onListen: () => {} }, (request) => router.fetch(request))
      .addr.port,
};

// Not at the top level, where a bundle in CommonJS may not wait.
async function run() {
  await router.ready();
  tell('listening', `http://127.0.0.1:${await SERVERS[process.argv[2] ?? 'node:http']()}`);
  for await (const line of createInterface({ input: process.stdin })) {
    const { id, part, name, args } = JSON.parse(line);
    const answer = await router[part][name](...args).then(
      (result) => ({ result }),
      (error) => ({ error: error.message }),
    );
    tell('called', { id, ...answer });
  }
  // The input has ended: so has the test that started this.
  await router.close();
  process.exit();
}

run().catch((error) => {
  console.error(error);
  process.exit(1);
});
