import type { StoreCommand } from './command.ts';

export const freezeCommand: StoreCommand = {
  name: 'freeze',
  summary: 'Reject new requests of an account; running ones continue and are charged',
  examples: ['freeze acme'],
  ...freezing(true),
};

export const unfreezeCommand: StoreCommand = {
  name: 'unfreeze',
  summary: 'Accept requests of a frozen account again',
  examples: ['unfreeze acme'],
  ...freezing(false),
};

function freezing(frozen: boolean): Omit<StoreCommand, 'name' | 'summary' | 'examples'> {
  return {
    store: 'exists',
    positionals: 'ACCOUNT',
    options: {},
    async run({ positionals: [account = ''], store, print }) {
      await store.freeze(account, frozen);
      print(`${account}: ${frozen ? 'frozen' : 'not frozen'}`, { account, frozen });
      return true;
    },
  };
}
