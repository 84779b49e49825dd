import type { Settle, SettleResult } from 'chat-completions-router';
import { describeLedgerStore } from 'chat-completions-router/testing/contracts';

import { AcmeStore } from './acme-store.ts';

/** Charges a request as often as it is told of its end. */
class ChargingTwice extends AcmeStore {
  override async settle(command: Settle): Promise<SettleResult> {
    const result = await super.settle(command);
    if (result.code === 'duplicate') {
      const { account, requestId: id, amount } = command;
      await this.adjust({ account, id, delta: -amount, reason: 'the same charge' });
    }
    return result;
  }
}

describeLedgerStore('ChargingTwice', ({ now }) => new ChargingTwice(now), { sequences: 30 });
