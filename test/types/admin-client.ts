/** What the compiler says of the client of the admin API: `npm run check` compiles this file, and nothing runs it. */
import {
  type AccountDetails,
  type AdminClient,
  AdminApiError,
  type ApiKey,
  type ApiKeyChange,
  type ApiKeyDetails,
  createAdminClient,
  type CreatedApiKey,
  type JournalEntry,
  type NewApiKey,
  type RunningRequest,
  type UsageRow,
} from 'chat-completions-router/client';

import type { InJson } from '../../src/json-api/in-json.ts';
import type {
  CreatedKeyAnswer,
  KeyAnswer,
  KeyDetailsAnswer,
  PolicyBody,
  PolicyChange,
} from '../../src/json-api/key-schemas.ts';
import type { CreditsEntry, RunningRequest as RouterRequest, UsageSummary } from '../../src/index.ts';

/** `true` where what the router has can be given for what the client names; else it doesn't compile. */
type Fits<_From extends To, To> = true;

export const answers: [
  Fits<KeyAnswer, ApiKey>,
  Fits<KeyDetailsAnswer, ApiKeyDetails>,
  Fits<CreatedKeyAnswer, CreatedApiKey>,
  Fits<InJson<UsageSummary>, UsageRow>,
  Fits<InJson<RouterRequest>, RunningRequest>,
  Fits<InJson<CreditsEntry>['type'], JournalEntry['type']>,
] = [true, true, true, true, true, true];

/** What the client lets be asked, the admin API takes. */
export const requests: [
  Fits<Omit<NewApiKey, 'id' | 'recreate'>, PolicyBody>,
  Fits<ApiKeyChange, PolicyChange>,
] = [true, true];

const client = createAdminClient({ baseURL: 'https://api.example.com/admin', token: 'secret' });
client satisfies AdminClient;

export async function results(): Promise<void> {
  const grant = { account: 'acme', amount: '25.00' };
  const { available, duplicate } = await client.createGrant(grant, { idempotencyKey: 'payment-1' });
  available satisfies string;
  duplicate satisfies boolean;
  (await client.getAccount({ account: 'acme' })) satisfies AccountDetails;
  (await client.listTargets()).data[0]?.state satisfies 'healthy' | 'ejected' | 'probing' | undefined;
  const groups = ['day', 'tag:team'] as const;
  const { data } = await client.queryUsage({ group_by: groups }, { signal: AbortSignal.timeout(1000) });
  data[0]?.charged satisfies string | undefined;
  (await client.getStatementCsv({ account: 'acme', month: '2026-11' })) satisfies string;

  // @ts-expect-error -- money is a decimal string
  await client.createGrant({ account: 'acme', amount: 25 });
  // @ts-expect-error -- which account?
  await client.createGrant({ amount: '25.00' });
  // @ts-expect-error -- no such group
  await client.queryUsage({ group_by: ['colour'] });
  // @ts-expect-error -- nothing is changed, so there is nothing to identify
  await client.getAccount({ account: 'acme' }, { idempotencyKey: 'payment-1' });
  // @ts-expect-error -- not an operation
  await client.createMoney({});
  // @ts-expect-error -- who asks?
  createAdminClient({ baseURL: 'https://api.example.com/admin' });
}

export function failures(error: unknown): string | undefined {
  if (!(error instanceof AdminApiError)) return undefined;
  error.status satisfies number;
  error.requestId satisfies string | undefined;
  return error.code;
}
