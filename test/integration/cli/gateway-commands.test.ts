import { afterAll, beforeAll, describe, expect, it } from 'vitest';

import {
  chunk,
  completion,
  DONE,
  type FakeProvider,
  startFakeProvider,
  stream,
} from '../../../src/testing.ts';
import { createChatCompletionsRouter, MemoryStore, StoreUnavailableError } from '../../../src/index.ts';
import { type AdminDoor, OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';
import type { Ended } from '../../helpers/cli.ts';
import { type Gateway, QUESTION, startGateway } from '../../helpers/gateway.ts';
import { run } from './run-in-process.ts';

describe('commands on a running gateway', () => {
  let provider: FakeProvider;
  let gateway: Gateway;
  let door: AdminDoor;

  beforeAll(async () => {
    provider = await startFakeProvider();
    gateway = await startGateway({
      providers: { main: { baseURL: provider.baseURL } },
      models: {
        'acme/fast': {
          targets: [{ provider: 'main', model: 'vendor/large', cost: { input: '0.10', output: '0.30' } }],
          pricing: { input: '0.15', output: '0.60' },
          contextWindow: 8192,
          maxOutputTokens: 1000,
        },
        'acme/free': { targets: ['main/vendor/small'], pricing: 'free' },
      },
    });
    door = await startAdmin({ router: gateway.router });
    provider.answer(completion());
    const settled = gateway.nextSettled();
    await (await gateway.post(QUESTION)).text();
    await settled;
  });

  afterAll(async () => {
    await door.close();
    await gateway.close();
    await provider.close();
  });

  const command = (...args: string[]): Promise<Ended> =>
    run([...args, '--url', door.baseURL], { folder: '.', env: { ADMIN_TOKEN: OPERATOR_TOKEN } });

  /** The cells of a table. */
  const cells = ({ stdout }: Ended): string[][] =>
    stdout
      .trimEnd()
      .split('\n')
      .map((line) => line.trim().split(/ {2,}/));

  it('models: prices and costs in USD per million tokens, in CSV per token', async () => {
    const ended = await command('models');
    expect(ended).toMatchObject({ code: 0, stderr: 'prices and costs in USD per million tokens\n' });
    expect(cells(ended)).toEqual([
      ['MODEL', 'PROVIDER', 'UPSTREAM MODEL', 'INPUT', 'OUTPUT', 'INPUT COST', 'OUTPUT COST', 'UNPRICED'],
      ['acme/fast', 'main', 'vendor/large', '$0.15', '$0.6', '$0.1', '$0.3', '–'],
      ['acme/free', 'main', 'vendor/small', '$0', '$0', '–', '–', '–'],
    ]);
    const csv = (await command('models', '--csv')).stdout.split('\n');
    expect(csv.slice(0, 2)).toEqual([
      'id,provider,upstream_model,weight,pricing_prompt,pricing_completion,cost_prompt,cost_completion,reports_cost,unpriced',
      'acme/fast,main,vendor/large,1,0.00000015,0.0000006,0.0000001,0.0000003,false,',
    ]);
    const [first = ''] = (await command('models', '--json')).stdout.split('\n');
    expect(JSON.parse(first)).toEqual((await door.ask('GET', '/models')).body.data[0]);
  });

  it('health: the targets that were used', async () => {
    const [heads, row] = cells(await command('health'));
    expect(heads).toEqual([
      'PROVIDER',
      'MODEL',
      'STATE',
      'FAILURES IN A ROW',
      'RETRY AT',
      'FIRST BYTE MS',
      'RUNNING',
    ]);
    expect(row?.slice(0, 4)).toEqual(['main', 'vendor/large', 'healthy', '0']);
    expect((await command('health', '--csv')).stdout).toMatch(/\nmain,vendor\/large,healthy,0,,[\d.]+,0\n$/);
  });

  it('requests running: each with its ID', async () => {
    expect((await command('requests', 'running')).stdout).toBe('no requests\n');
    const { promise: asked, resolve: goOn } = Promise.withResolvers<undefined>();
    provider.answer(stream(chunk('one'), () => asked, DONE));
    const settled = gateway.nextSettled();
    const response = await gateway.post({ ...QUESTION, stream: true });
    const id = response.headers.get('x-request-id');
    const shown = cells(await command('requests', 'running'));
    const json = JSON.parse((await command('requests', 'running', '--json')).stdout) as object;
    goOn(undefined);
    await response.text();
    await settled;
    expect(shown[0]).toEqual(['REQUEST', 'STARTED AT', 'ACCOUNT', 'KEY', 'MODEL', 'PROVIDER', 'STREAMING']);
    expect(shown[1]).toMatchObject({ 0: id, 2: 'acct', 4: 'acme/fast', 6: 'true' });
    expect(json).toMatchObject({ id, account: 'acct' });
  });

  it('status: what the API says, and whether all is well', async () => {
    const { code, stdout } = await command('status');
    expect(code).toBe(0);
    expect(stdout).toMatch(/^store state +available$/m);
    expect(stdout).toMatch(/^charges wait +0$/m);
    expect(JSON.parse((await command('status', '--json')).stdout)).toMatchObject({
      store: { state: 'available' },
      waiting_charges: 0,
    });
  });

  it('requests waiting: those whose charge the store has not answered', async () => {
    class Store extends MemoryStore {
      isAway = false;

      override settle(...command: Parameters<MemoryStore['settle']>): ReturnType<MemoryStore['settle']> {
        if (this.isAway) throw new StoreUnavailableError('no');
        return super.settle(...command);
      }
    }
    const store = new Store();
    const router = createChatCompletionsRouter({
      store,
      providers: { main: { baseURL: provider.baseURL } },
      models: {
        'acme/fast': { targets: ['main/m'], pricing: { input: '1', output: '1' }, maxOutputTokens: 9 },
      },
      hooks: { onError: () => {} },
    });
    const other = await startAdmin({ router });
    const waiting = (...args: string[]): Promise<Ended> =>
      run(['requests', 'waiting', '--url', other.baseURL, ...args], {
        folder: '.',
        env: { ADMIN_TOKEN: OPERATOR_TOKEN },
      });
    await router.credits.grant('acme', '1.00', { id: 'g' });
    const { key } = await router.keys.create({ account: 'acme' });
    expect((await waiting()).stdout).toBe('no requests\n');
    store.isAway = true;
    provider.answer(completion());
    const response = await router.fetch(
      new Request('http://127.0.0.1/v1/chat/completions', {
        method: 'POST',
        headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
        body: JSON.stringify(QUESTION),
      }),
    );
    await response.text();
    await expect.poll(async () => (await router.status()).waitingCharges).toBe(1);
    const id = response.headers.get('x-request-id');
    expect(cells(await waiting())).toEqual([
      ['REQUEST', 'ACCOUNT', 'WAITING MS'],
      [id, 'acme', expect.stringMatching(/^\d+$/)],
    ]);
    expect(JSON.parse((await waiting('--json')).stdout)).toMatchObject({ account: 'acme', request_id: id });
    store.isAway = false;
    await router.close();
    await other.close();
  });

  it('whoami: name and permissions', async () => {
    expect((await command('whoami')).stdout).toBe('ada: may read, keys, credits, accounts, providers\n');
  });

  it('refuse two formats, and say the ID of a request that the API refused', async () => {
    expect(await command('models', '--csv', '--json')).toMatchObject({
      code: 2,
      stderr: expect.stringContaining('--json and --csv exclude each other'),
    });
    const refused = await run(['status', '--url', door.baseURL], {
      folder: '.',
      env: { ADMIN_TOKEN: 'wrong-token' },
    });
    expect(refused).toMatchObject({ code: 1, stderr: expect.stringMatching(/\(request adm-[\w-]+\)\n$/) });
  });
});
