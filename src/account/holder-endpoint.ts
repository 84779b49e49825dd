import * as v from 'valibot';

import { snakeCase } from '../json-api/in-json.ts';
import { OWN_FIELDS } from '../json-api/key-schemas.ts';
import { component, described, flag } from '../json-api/schema.ts';
import { type Endpoint, endpoint, nothing } from './endpoint.ts';
import { HOLDER_PERMISSIONS } from './holder.ts';

const holder = component(
  'Holder',
  'Who has signed in, and what it may do.',
  v.object({
    account: v.string(),
    name: v.string(),
    signed_in_by: described('an API key, or a session of the site', v.picklist(['key', 'host'])),
    key: v.optional(described('the ID of that API key', v.string())),
    scope: described(
      'key: it sees that API key alone, which has limits of its own',
      v.picklist(['account', 'key']),
    ),
    may: v.array(v.picklist(HOLDER_PERMISSIONS)),
    api: described('where chat completions are served, on this origin', v.string()),
    fixed_key_fields: described(
      'fields of a key that are the same for all keys of this site, and can not be chosen',
      v.array(v.string()),
    ),
    end_users: described('usage is counted by end user', flag()),
  }),
);

export const holderEndpoint: Endpoint = endpoint({
  operation: 'getMe',
  method: 'GET',
  path: '/me',
  summary: 'Get who has signed in, and what it may do',
  params: nothing,
  query: nothing,
  body: nothing,
  answer: holder,
  needs: 'none',
  async run({ caller: { account, name, key, onlyKey, may } }, { router, apiPath, playground, newKeys }) {
    const signedInBy: 'key' | 'host' = key === undefined ? 'host' : 'key';
    const scope: 'account' | 'key' = onlyKey === undefined ? 'account' : 'key';
    const plays = key !== undefined || playground !== undefined;
    return {
      answer: {
        account,
        name,
        signed_in_by: signedInBy,
        ...(key !== undefined && { key }),
        scope,
        may: may.filter((each) => each !== 'playground' || plays),
        api: apiPath,
        fixed_key_fields: OWN_FIELDS.filter((field) => newKeys[field] !== undefined).map(snakeCase),
        end_users: router.usage.dimensions?.includes('user') === true && onlyKey === undefined,
      },
    };
  },
});
