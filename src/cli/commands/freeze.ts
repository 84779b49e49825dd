import type { StoreCommand } from './command.ts';

export const freezeCommand: StoreCommand = {
  name: 'freeze',
  summary: 'Reject new requests of an account; running ones continue and are charged',
  ...freezing(true),
};

export const unfreezeCommand: StoreCommand = {
  name: 'unfreeze',
  summary: 'Accept requests of a frozen account again',
  ...freezing(false),
};

function freezing(frozen: boolean): Omit<StoreCommand, 'name' | 'summary'> {
  return {
    store: 'exists',
    positionals: 'ACCOUNT',
    options: {},
    async run({ positionals: [account = ''], store, print }) {
      const isKnown = await store.freeze(account, frozen);
      const state = frozen ? 'frozen' : 'not frozen';
      const text = isKnown ? `${account}: ${state}` : `There is no account ${account}`;
      print(text, isKnown ? { account, frozen } : { account, error: 'no_account' });
      return isKnown;
    },
  };
}
