/** A picture of the usage page, over a ledger of 60 days that a fixed seed made. */
import { createChatCompletionsRouter, MemoryStore } from '../../../src/index.ts';
import { RequestIds } from '../../../src/ledger/contract/request-ids.ts';
import { launchChromium } from '../helpers/chromium.ts';
import { OPERATOR_TOKEN, startAdmin } from '../../helpers/admin.ts';

const DAY_MS = 86_400_000;
const DAYS = 60;

/** Nano-dollars of a request, what the provider bills of it in percent, and how often it is asked. */
const MODELS = [
  { id: 'openai/gpt-5.2', charge: 76_000_000, costPercent: 80, share: 20 },
  { id: 'anthropic/claude-sonnet-4.6', charge: 98_000_000, costPercent: 82, share: 14 },
  { id: 'openai/gpt-5-mini', charge: 12_000_000, costPercent: 77, share: 26 },
  { id: 'google/gemini-3-flash', charge: 9_000_000, costPercent: 75, share: 12 },
  { id: 'deepseek/deepseek-v3.2', charge: 5_000_000, costPercent: 70, share: 9 },
  { id: 'mistral/mistral-large-3', charge: 21_000_000, costPercent: 78, share: 3 },
];

const ACCOUNTS = [
  { name: 'umbrella-labs', share: 18, credits: 2000n },
  { name: 'northwind', share: 17, credits: 1600n },
  { name: 'globex', share: 16, credits: 1500n },
  { name: 'initech', share: 14, credits: 1200n },
  { name: 'wonka', share: 5, credits: 400n },
  { name: 'stark-industries', share: 4, credits: 320n },
];

/** Numbers from 0 to 1 that are the same in each run. */
function randomOf(seed: number): () => number {
  let state = seed;
  return () => {
    state = (state * 1_664_525 + 1_013_904_223) % 2 ** 32;
    return state / 2 ** 32;
  };
}

const random = randomOf(7);

/** A row, by the shares of all. */
function pick<T extends { readonly share: number }>(rows: readonly T[]): T {
  let left = random() * rows.reduce((sum, { share }) => sum + share, 0);
  const row = rows.find(({ share }) => (left -= share) < 0) ?? rows[0];
  if (!row) throw new Error('There is no row');
  return row;
}

/** A ledger in which every account spent its credits over the days, less on weekends. */
export async function makeLedger(): Promise<MemoryStore> {
  const today = Date.now();
  let now = today - DAYS * DAY_MS;
  const store = new MemoryStore({ now: () => now });
  const router = createChatCompletionsRouter({ store, providers: {}, models: {} });
  const keys = new Map<string, string>();
  for (const { name, credits } of ACCOUNTS) {
    await router.credits.grant(name, `${credits * 4n}.00`, { id: 'invoice-1' });
    keys.set(name, (await router.keys.create({ account: name, name: 'Production' })).id);
  }
  const requestIds = new RequestIds(() => now);
  for (let day = DAYS; day >= 0; day--) {
    const begin = today - day * DAY_MS;
    const weekday = new Date(begin).getUTCDay();
    const requests =
      (weekday === 0 || weekday === 6 ? 900 : 2000) * (0.8 + random() * 0.4) * (1.2 - day / 200);
    for (let i = 0; i < requests; i++) {
      now = begin + Math.floor((i / requests - 1) * DAY_MS);
      const { name } = pick(ACCOUNTS);
      await spend(store, requestIds.next(), name, keys.get(name) ?? '');
    }
  }
  now = today;
  return store;
}

async function spend(store: MemoryStore, requestId: string, account: string, key: string): Promise<void> {
  const model = pick(MODELS);
  const size = 0.3 + random() * 1.4;
  const amount = BigInt(Math.round(model.charge * size));
  await store.admit({
    account,
    key,
    requestId,
    want: amount,
    min: amount,
    leaseMs: 1000,
    tokens: 1,
    notAfter: Infinity,
    externalKey: true,
  });
  const usage = {
    promptTokens: Math.round(1500 * size),
    cachedTokens: Math.round(300 * size),
    completionTokens: Math.round(350 * size),
    reasoningTokens: 0,
    source: 'upstream' as const,
    price: 'p1',
    ending: random() < 0.003 ? ('upstream_error' as const) : ('finished' as const),
    cost: (amount * BigInt(model.costPercent)) / 100n,
  };
  await store.settle({ account, requestId, amount, key, model: model.id, usage, force: false });
}

/** @returns a PNG of 1280 pixels' width */
export async function usagePage(): Promise<Buffer> {
  const admin = await startAdmin({ store: await makeLedger() });
  const browser = await launchChromium();
  const page = await browser.newPage({ viewport: { width: 1280, height: 1010 } });
  await page.goto(admin.baseURL);
  await page.getByLabel('Token').fill(OPERATOR_TOKEN);
  await page.keyboard.press('Enter');
  await page.locator('#report').waitFor();
  await page.evaluate('document.activeElement?.blur()');
  const picture = await page.screenshot({ animations: 'disabled' });
  await browser.close();
  await admin.close();
  return picture;
}
