import * as z from 'zod';

import { type Endpoint, nothing } from './endpoint.ts';
import { component, documented } from './fields.ts';

/** The document of OpenAPI 3.1 that says what the admin door serves, as JSON. */
export function openApi(endpoints: readonly Endpoint[]): Buffer {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const endpoint of endpoints) {
    const path = (paths[endpoint.path] ??= {});
    path[endpoint.method.toLowerCase()] = operation(endpoint);
  }
  paths['/openapi.json'] = { get: DESCRIPTION };
  paths['/'] = { get: PAGE };
  const document = {
    openapi: '3.1.0',
    info: {
      title: 'chat-completions-router, admin API',
      version: '1',
      description:
        'Accounts, API keys, credits and usage of a chat-completions-router. Money is USD in decimal strings, times are UTC.',
    },
    // The folder of this document, wherever that is mounted.
    servers: [{ url: '.' }],
    security: [{ operator: [] }],
    paths,
    components: {
      securitySchemes: {
        operator: {
          type: 'http',
          scheme: 'bearer',
          description: 'Or whatever else the authorize option of this server knows its operators by.',
        },
      },
      responses: { Error: content(ERROR, 'A refusal.') },
      schemas: schemas(),
    },
  };
  return Buffer.from(JSON.stringify(document));
}

const ERROR = component(
  'Error',
  'What every refusal answers.',
  z.object({
    error: z.object({
      message: z.string(),
      type: z.string(),
      param: z.string().nullable(),
      code: z.string(),
    }),
  }),
);

const DESCRIPTION = {
  operationId: 'getDescription',
  summary: 'This document',
  responses: {
    200: { description: 'OpenAPI 3.1', content: { 'application/json': { schema: { type: 'object' } } } },
    default: { $ref: '#/components/responses/Error' },
  },
};

const PAGE = {
  operationId: 'getPage',
  summary:
    'The usage page, for browsers: it asks for a token where they can not send one, and comes with a 401 then',
  responses: {
    200: { description: 'HTML', content: { 'text/html': { schema: { type: 'string' } } } },
    default: { $ref: '#/components/responses/Error' },
  },
};

function operation(endpoint: Endpoint): unknown {
  const { operation: operationId, summary, change, status = 200, refuses = [], answer } = endpoint;
  const takesBody = endpoint.body !== nothing;
  return {
    operationId,
    summary,
    parameters: [
      ...parameters('path', endpoint.params),
      ...parameters('query', endpoint.query),
      ...(change ? [idempotencyKey(change.repeat)] : []),
    ],
    ...(takesBody && {
      requestBody: {
        required: endpoint.bodyIsOptional !== true,
        content: { 'application/json': { schema: reference(endpoint.body) } },
      },
    }),
    responses: {
      [status]: content(answer, 'Done.'),
      ...(status !== 200 && { 200: content(answer, 'Done before, and not again.') }),
      ...Object.fromEntries([400, 401, ...refuses].map((refused) => [refused, ERROR_RESPONSE])),
      default: ERROR_RESPONSE,
    },
  };
}

const ERROR_RESPONSE = { $ref: '#/components/responses/Error' };

function idempotencyKey(repeat: string): unknown {
  return {
    name: 'Idempotency-Key',
    in: 'header',
    description: `Names the request, so that it can be sent again. Then: ${repeat}`,
    schema: { type: 'string', pattern: '^[!-~]{1,255}$' },
  };
}

function parameters(place: 'path' | 'query', schema: z.ZodObject): unknown[] {
  const { properties = {}, required = [] } = inline(schema);
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: required.includes(name),
    schema: property,
  }));
}

function content(schema: z.ZodType, description: string): unknown {
  return { description, content: { 'application/json': { schema: reference(schema) } } };
}

function reference(schema: z.ZodType): { readonly $ref: string } {
  const id = documented.get(schema)?.id;
  if (id === undefined) throw new TypeError('a body or an answer is no component of the description');
  return { $ref: location(id) };
}

function location(id: string): string {
  return `#/components/schemas/${id}`;
}

function schemas(): Record<string, unknown> {
  const all = z.toJSONSchema(documented, { metadata: documented, uri: location, io: 'input' });
  return Object.fromEntries(Object.entries(all.schemas).map(([id, schema]) => [id, withoutPlace(schema)]));
}

function inline(schema: z.ZodType): z.core.JSONSchema.BaseSchema {
  return z.toJSONSchema(schema, { metadata: documented, io: 'input' });
}

/** Within a document neither is said. */
function withoutPlace({
  $id: _id,
  $schema: _schema,
  id: _name,
  ...schema
}: Record<string, unknown>): unknown {
  return schema;
}
