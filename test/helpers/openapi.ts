import * as z from 'zod';

interface Operation {
  readonly operationId: string;
  readonly parameters?: readonly Parameter[];
  readonly requestBody?: { readonly content: Content };
  readonly responses: Readonly<Record<string, { readonly content?: Content; readonly $ref?: string }>>;
}
interface Parameter {
  readonly name: string;
  readonly in: string;
  readonly required?: boolean;
  readonly description?: string;
  readonly schema: object;
}
type Content = Readonly<Record<string, { readonly schema: object }>>;
/** The parts of an OpenAPI document that tests read. */
export interface OpenApiDocument {
  readonly openapi: string;
  readonly info: { readonly title: string; readonly version: string };
  readonly paths: Readonly<Record<string, Readonly<Record<string, Operation>>>>;
  readonly components: { readonly schemas: Readonly<Record<string, object>> };
}

/** Everything in a document that is an object, with where it is. */
export function* nodes(value: unknown, place = '#'): Generator<[string, Record<string, unknown>]> {
  if (typeof value !== 'object' || value === null) return;
  yield [place, value as Record<string, unknown>];
  for (const [name, inside] of Object.entries(value)) yield* nodes(inside, `${place}/${name}`);
}

export function resolve(document: OpenApiDocument, reference: string): unknown {
  return reference
    .split('/')
    .slice(1)
    .reduce<unknown>((inside, name) => (inside as Record<string, unknown> | undefined)?.[name], document);
}

/** What a schema of the document says of a value, made anew from the document, and strict about what it doesn't name. */
export function problems(document: OpenApiDocument, schema: object, value: unknown): unknown[] {
  const closed = JSON.parse(
    JSON.stringify({ ...schema, $defs: document.components.schemas })
      .replaceAll('#/components/schemas/', '#/$defs/')
      .replaceAll('"type":"object"', '"type":"object","additionalProperties":false'),
  );
  const { error } = z.fromJSONSchema(closed).safeParse(value);
  return error?.issues ?? [];
}
