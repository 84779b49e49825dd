import { type CostBatch, MAX_COSTS, MAX_ROUTING_DOCUMENT, type RoutingChange } from '../contract/routing.ts';
import { checkAmount, checkCount, commandError } from './validate-commands.ts';

/** Argument checks of a RoutingStore: as in validate-commands.ts. */

export function checkRoutingChange({ from, to, document }: RoutingChange): void {
  if (from !== '') checkName('from', from);
  checkName('to', to);
  if (typeof document !== 'string' || document.length > MAX_ROUTING_DOCUMENT) {
    throw commandError('document', `a string of at most ${MAX_ROUTING_DOCUMENT} characters`, document);
  }
}

export function checkCostBatch({ writer, number, costs }: CostBatch): void {
  checkName('writer', writer);
  checkCount('number', number, 1);
  if (!Array.isArray(costs) || costs.length > MAX_COSTS) {
    throw commandError('costs', `a list of at most ${MAX_COSTS}`, costs);
  }
  for (const { provider, from, until, amount } of costs) {
    if (typeof provider !== 'string' || provider.length < 1 || provider.length > 256) {
      throw commandError('provider', '1 to 256 characters', provider);
    }
    checkCount('from', from, 0);
    checkCount('until', until, from + 1);
    checkAmount('amount', amount);
    if (amount === 0n) throw commandError('amount', 'more than 0', amount);
  }
}

function checkName(name: string, value: unknown): void {
  if (typeof value !== 'string' || !/^[A-Za-z0-9-]{1,64}$/.test(value)) {
    throw commandError(name, '1 to 64 letters, digits and dashes', value);
  }
}
