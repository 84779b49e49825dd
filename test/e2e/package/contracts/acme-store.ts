/** A ledger store as a third party would write one: it knows the public types alone. */
import {
  type AccountState,
  type Adjust,
  type AdjustResult,
  type Admit,
  type AdmitResult,
  type Allow,
  type AllowResult,
  type Balance,
  type CreateKey,
  type CreateKeyResult,
  type DeleteAccountResult,
  type DeletedAccount,
  type EndAllowance,
  type EndAllowanceResult,
  type EndUserStatus,
  type Extend,
  type ExtendResult,
  type FoundKey,
  type Grant,
  type GrantResult,
  type JournalLine,
  type KeyRecord,
  type KeyStatus,
  type LedgerStore,
  MemoryStore,
  type Refund,
  type RefundResult,
  type RequestRecord,
  type RotateKey,
  type RotateKeyResult,
  type SetFloor,
  type SetFloorResult,
  type Settle,
  type SettleResult,
  type UpdateKey,
  type UpdateKeyResult,
  type DimensionRow,
  type UsageRow,
  type Verify,
  type VerifyResult,
  type Void,
  type VoidResult,
} from 'chat-completions-router';

export class AcmeStore implements LedgerStore {
  readonly #rows: LedgerStore;

  constructor(now: () => number) {
    this.#rows = new MemoryStore({ now });
  }

  async admit(command: Admit): Promise<AdmitResult> {
    return this.#rows.admit(command);
  }

  async extend(command: Extend): Promise<ExtendResult> {
    return this.#rows.extend(command);
  }

  async settle(command: Settle): Promise<SettleResult> {
    return this.#rows.settle(command);
  }

  async void(command: Void): Promise<VoidResult> {
    return this.#rows.void(command);
  }

  grant(command: Grant): Promise<GrantResult> {
    return this.#rows.grant(command);
  }

  adjust(command: Adjust): Promise<AdjustResult> {
    return this.#rows.adjust(command);
  }

  verify(command: Verify): Promise<VerifyResult> {
    return this.#rows.verify(command);
  }

  sweep(budget: number): Promise<number> {
    return this.#rows.sweep(budget);
  }

  request(account: string, requestId: string): Promise<RequestRecord | undefined> {
    return this.#rows.request(account, requestId);
  }

  snapshot(account: string): Promise<AccountState | undefined> {
    return this.#rows.snapshot(account);
  }

  balance(account: string): Promise<Balance | undefined> {
    return this.#rows.balance(account);
  }

  journal(account: string, afterSeq: bigint, limit: number): Promise<readonly JournalLine[]> {
    return this.#rows.journal(account, afterSeq, limit);
  }

  compact(account: string, seq: bigint): Promise<void> {
    return this.#rows.compact(account, seq);
  }

  usage(...query: Parameters<LedgerStore['usage']>): Promise<readonly UsageRow[]> {
    return this.#rows.usage(...query);
  }

  usageBy(...query: Parameters<LedgerStore['usageBy']>): Promise<readonly DimensionRow[]> {
    return this.#rows.usageBy(...query);
  }

  compactUsage(account: string, beforeDay: string): Promise<void> {
    return this.#rows.compactUsage(account, beforeDay);
  }

  prune(account: string): Promise<number> {
    return this.#rows.prune(account);
  }

  freeze(account: string, frozen: boolean): Promise<boolean> {
    return this.#rows.freeze(account, frozen);
  }

  setFloor(command: SetFloor): Promise<SetFloorResult> {
    return this.#rows.setFloor(command);
  }

  allow(command: Allow): Promise<AllowResult> {
    return this.#rows.allow(command);
  }

  endAllowance(command: EndAllowance): Promise<EndAllowanceResult> {
    return this.#rows.endAllowance(command);
  }

  refund(command: Refund): Promise<RefundResult> {
    return this.#rows.refund(command);
  }

  deleteAccount(account: string): Promise<DeleteAccountResult> {
    return this.#rows.deleteAccount(account);
  }

  deletedAccounts(): AsyncIterable<DeletedAccount> {
    return this.#rows.deletedAccounts();
  }

  accounts(): AsyncIterable<string> {
    return this.#rows.accounts();
  }

  createKey(command: CreateKey): Promise<CreateKeyResult> {
    return this.#rows.createKey(command);
  }

  findKey(hash: string): Promise<FoundKey | undefined> {
    return this.#rows.findKey(hash);
  }

  keyState(account: string, key: string): Promise<KeyStatus | undefined> {
    return this.#rows.keyState(account, key);
  }

  endUserState(account: string, endUser: string, key?: string): Promise<EndUserStatus | undefined> {
    return this.#rows.endUserState(account, endUser, key);
  }

  keys(account: string): Promise<readonly KeyRecord[]> {
    return this.#rows.keys(account);
  }

  updateKey(command: UpdateKey): Promise<UpdateKeyResult> {
    return this.#rows.updateKey(command);
  }

  rotateKey(command: RotateKey): Promise<RotateKeyResult> {
    return this.#rows.rotateKey(command);
  }

  revokeKey(account: string, key: string): Promise<boolean> {
    return this.#rows.revokeKey(account, key);
  }

  close(): Promise<void> {
    return this.#rows.close();
  }
}
