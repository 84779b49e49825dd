import {
  type ConversionConfig,
  type JsonSchema,
  toJsonSchema,
  toJsonSchemaDefs,
} from '@valibot/to-json-schema';
import * as v from 'valibot';

import { type Endpoint, nothing, permissionFor } from './endpoint.ts';
import { component, components, type Schema } from './schema.ts';

/** The OpenAPI 3.1 document of the admin API, as JSON. */
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
    // Relative to this document, so it holds for any mount.
    servers: [{ url: '.' }],
    security: [{ operator: [] }],
    paths,
    components: {
      securitySchemes: {
        operator: {
          type: 'http',
          scheme: 'bearer',
          description: 'Or any other credentials that the authorize option of this server accepts.',
        },
      },
      responses: { Error: jsonContent(ERROR, 'An error.') },
      schemas: schemas(),
    },
  };
  return Buffer.from(JSON.stringify(document));
}

const ERROR = component(
  'Error',
  'The body of every error.',
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
    200: { description: 'OpenAPI 3.1', content: { 'application/json': { schema: { type: 'object' } } } },
    default: { $ref: '#/components/responses/Error' },
  },
};

const PAGE = {
  operationId: 'getPage',
  summary:
    'The console, for browsers. A browser without valid credentials gets it too, and it asks for a token; a program gets a 401',
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
    hasCsv = false,
  } = endpoint;
  const needed = permissionFor(endpoint);
  const takesBody = endpoint.body !== nothing;
  return {
    operationId,
    summary,
    ...(needed !== undefined && { description: `Needs the permission ${needed}.` }),
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
      [status]: jsonContent(answer, 'Done.', hasCsv),
      ...(status !== 200 && { 200: jsonContent(answer, 'Already done by an earlier request.') }),
      ...Object.fromEntries(
        [400, 401, ...(needed === undefined ? [] : [403]), ...refuses].map((refused) => [
          refused,
          ERROR_RESPONSE,
        ]),
      ),
      default: ERROR_RESPONSE,
    },
  };
}

const ERROR_RESPONSE = { $ref: '#/components/responses/Error' };

function idempotencyKey(repeat: string): unknown {
  return {
    name: 'Idempotency-Key',
    in: 'header',
    description: `Identifies the request, so that it can be retried safely. A repeated request gets ${repeat}`,
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

function jsonContent(schema: Schema, description: string, hasCsv = false): unknown {
  const csv = hasCsv ? { 'text/csv': { schema: { type: 'string' } } } : {};
  return { description, content: { 'application/json': { schema: reference(schema) }, ...csv } };
}

function reference(schema: Schema): { readonly $ref: string } {
  const [id] = Object.entries(components).find(([, each]) => each === schema) ?? [];
  if (id === undefined) throw new TypeError('body and answer of an endpoint must be components');
  return { $ref: location(id) };
}

function location(id: string): string {
  return `#/components/schemas/${id}`;
}

/** Checks that JSON Schema can't express, such as an amount's range, are in the descriptions. */
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
