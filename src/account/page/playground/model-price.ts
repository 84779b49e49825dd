import type { OwnModels } from '../../../client/admin-api.generated.ts';

export type OwnModel = OwnModels['data'][number];

type Price = OwnModel['pricing'][string] | undefined;

/** `$0.25 in, $2.00 out for a million tokens`; empty where a price is none of tokens. */
export function priceOf({ pricing }: OwnModel): string {
  const [prompt, completion] = [ofMillion(pricing['prompt']), ofMillion(pricing['completion'])];
  if (prompt === undefined || completion === undefined) return '';
  return `${prompt} in, ${completion} out for a million tokens`;
}

/** Of prices that depend on the prompt's size, the first. */
function ofMillion(price: Price): string | undefined {
  const isTiered = Array.isArray(price);
  const first: unknown = isTiered ? price[0]?.cost : price;
  if (typeof first !== 'string') return undefined;
  const dollars = Number(first) * 1e6;
  const text = dollars >= 0.1 || dollars === 0 ? dollars.toFixed(2) : String(Number(dollars.toPrecision(3)));
  return isTiered ? `from $${text}` : `$${text}`;
}
