import * as v from 'valibot';

import { InvalidRequestError } from '../errors/request-errors.ts';
import { noTerms } from '../json-api/key-schemas.ts';
import { at, component, described, usd } from '../json-api/schema.ts';
import { type Endpoint, endpoint, nothing } from './endpoint.ts';
import { NoPlaygroundError } from './errors.ts';

const playgroundKey = component(
  'PlaygroundKey',
  'A short-lived API key for the page that asked for it. What it spends is charged to the account.',
  v.object({
    key: described('ses-…', v.string()),
    expires_at: at,
    max_spend: usd,
  }),
);

export const playgroundEndpoint: Endpoint = endpoint({
  operation: 'createPlaygroundKey',
  method: 'POST',
  path: '/playground',
  summary: 'Get a short-lived API key for the playground of a session of the site',
  params: nothing,
  query: nothing,
  body: noTerms,
  bodyIsOptional: true,
  answer: playgroundKey,
  status: 201,
  errorStatuses: [409],
  change: {
    action: 'playground.create',
    needs: 'playground',
    repeat: 'another one: nothing is stored before it is used.',
  },
  async run({ origin, caller: { account, key } }, { router: { sessions }, newKeys, playground }) {
    if (key !== undefined) {
      throw new NoPlaygroundError('Who signs in by an API key uses that key in the playground.');
    }
    if (!playground) {
      throw new NoPlaygroundError(
        'The playground of a session needs the option sessions.secret of the router, which is not set.',
      );
    }
    if (origin === undefined) {
      throw new InvalidRequestError(
        'missing_required_parameter',
        'A key for the playground is made for a page: the request must have its Origin.',
        'Origin',
      );
    }
    const { models, require, markup } = newKeys;
    const created = sessions.create({
      account,
      ...playground,
      origins: [origin],
      ...(models && { models }),
      ...(require && { require }),
      ...(markup && { markup }),
    });
    return {
      answer: {
        key: created.session,
        expires_at: created.expiresAt.toISOString(),
        max_spend: playground.maxSpend,
      },
      target: created.id,
    };
  },
});
