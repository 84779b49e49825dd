import {
  type ConversionConfig,
  type JsonSchema,
  toJsonSchema,
  toJsonSchemaDefs,
} from '@valibot/to-json-schema';
import * as v from 'valibot';

import { type ChangeNotes, type Endpoint, nothing, permissionFor } from './endpoint.ts';
import { component, components, type Schema } from './schema.ts';
import type { ApiDescription } from './host-view.ts';

/** The operations of an API, whatever they use. */
export type DescribedEndpoint = Omit<Endpoint<never, never>, 'prepare' | 'needs' | 'change'> & {
  readonly needs?: string;
  readonly change?: ChangeNotes;
};

/** The OpenAPI 3.1 document of an API, as JSON. */
export function openApi(
  endpoints: readonly DescribedEndpoint[],
  { name, about, page, token }: ApiDescription,
): Buffer {
  const paths: Record<string, Record<string, unknown>> = {};
  for (const endpoint of endpoints) {
    const path = (paths[endpoint.path] ??= {});
    path[endpoint.method.toLowerCase()] = operation(endpoint);
  }
  paths['/openapi.json'] = { get: DESCRIPTION };
  paths['/'] = { get: pageOperation(page) };
  const responses = { Error: jsonContent(ERROR, 'An error.') };
  const document = {
    openapi: '3.1.0',
    info: {
      title: `chat-completions-router, ${name}`,
      version: '1',
      description: `${about} Money is USD in decimal strings, times are UTC.`,
    },
    // Relative to this document, so it holds for any mount.
    servers: [{ url: '.' }],
    security: [{ [token.name]: [] }],
    paths,
    components: {
      securitySchemes: {
        [token.name]: { type: 'http', scheme: 'bearer', description: token.about },
      },
      responses,
      schemas: schemasOf([paths, responses]),
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

function pageOperation(summary: string): unknown {
  return {
    operationId: 'getPage',
    summary,
    responses: {
      200: { description: 'HTML', content: { 'text/html': { schema: { type: 'string' } } } },
      default: { $ref: '#/components/responses/Error' },
    },
  };
}

function operation(endpoint: DescribedEndpoint): unknown {
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

/** The components that a part of the document refers to, and those that these refer to. */
function schemasOf(part: unknown): Record<string, JsonSchema> {
  const all = toJsonSchemaDefs(components, {
    ...CONVERSION,
    overrideRef: ({ referenceId }) => location(referenceId),
  });
  const used = new Set<string>();
  const addFrom = (value: unknown): void => {
    for (const [, id = ''] of JSON.stringify(value).matchAll(/"#\/components\/schemas\/(\w+)"/g)) {
      if (used.has(id)) continue;
      used.add(id);
      addFrom(all[id]);
    }
  };
  addFrom(part);
  return Object.fromEntries(Object.entries(all).filter(([id]) => used.has(id)));
}

function inline(schema: Schema): JsonSchema {
  return toJsonSchema(schema, CONVERSION);
}
