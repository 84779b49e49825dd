import * as v from 'valibot';

import { type Endpoint, endpoint, nothing } from './endpoint.ts';
import { PERMISSIONS } from './operator.ts';
import { component, described } from '../json-api/schema.ts';

const me = component(
  'Me',
  'The operator of the request.',
  v.object({
    name: described('as authorize returned it', v.string()),
    may: described('operations that need another permission are a 403', v.array(v.picklist(PERMISSIONS))),
  }),
);

export const operatorEndpoint: Endpoint = endpoint({
  operation: 'getMe',
  method: 'GET',
  path: '/me',
  summary: 'Get the name and the permissions of the operator',
  params: nothing,
  query: nothing,
  body: nothing,
  answer: me,
  needs: 'none',
  run: async ({ caller: { name, may } }) => ({ answer: { name, may: [...may] } }),
});
