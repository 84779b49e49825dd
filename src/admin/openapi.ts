import {
  type ConversionConfig,
  type JsonSchema,
  toJsonSchema,
  toJsonSchemaDefs,
} from '@valibot/to-json-schema';
import * as v from 'valibot';

import { type Endpoint, nothing } from './endpoint.ts';
import { component, components, type Schema } from './schema.ts';

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
  v.object({
    error: v.object({
      message: v.string(),
      type: v.string(),
      param: v.nullable(v.string()),
      code: v.string(),
    }),
  }),
);

const DESCRIPTION = {
  operationId: 'getDescription',
  summary: 'This document',
  responses: {
    200: { description: 'OpenAPI 3.1', jsonContent: { 'application/json': { schema: { type: 'object' } } } },
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
  const {
    operation: operationId,
    summary,
    change,
    status = 200,
    errorStatuses: refuses = [],
    answer,
  } = endpoint;
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

function parameters(place: 'path' | 'query', schema: Schema<object>): unknown[] {
  const { properties = {}, required = [] } = inline(schema);
  return Object.entries(properties).map(([name, property]) => ({
    name,
    in: place,
    required: required.includes(name),
    schema: property,
  }));
}

function content(schema: Schema, description: string): unknown {
  return { description, content: { 'application/json': { schema: reference(schema) } } };
}

function reference(schema: Schema): { readonly $ref: string } {
  const [id] = Object.entries(components).find(([, each]) => each === schema) ?? [];
  if (id === undefined) throw new TypeError('a body or an answer is no component of the description');
  return { $ref: location(id) };
}

function location(id: string): string {
  return `#/components/schemas/${id}`;
}

/** What it can't say, as what a string means, is said in words. */
const CONVERSION: ConversionConfig = { target: 'draft-2020-12', errorMode: 'ignore' };

function schemas(): Record<string, JsonSchema> {
  return toJsonSchemaDefs(components, {
    ...CONVERSION,
    overrideRef: ({ referenceId }) => location(referenceId),
  });
}

function inline(schema: Schema): JsonSchema {
  return toJsonSchema(schema, CONVERSION);
}
