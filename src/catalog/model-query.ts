import { InvalidRequestError } from '../errors/request-errors.ts';

/** What a request to `GET /models` asks for: OpenRouter's query parameters of which the router has the data. */
export interface ModelQuery {
  /** All of them must be supported. */
  readonly parameters: readonly string[];
  /** At least one of them must be taken; empty for any. */
  readonly inputs: readonly string[];
  /** At least one of them must be written; empty for any. */
  readonly outputs: readonly string[];
  /** A part of the ID, an alias or the name, in lower case; empty for any. */
  readonly text: string;
  readonly offset: number;
  /** Undefined for all. */
  readonly limit: number | undefined;
}

const MAX_TEXT = 256;

/** Parameters that the router doesn't know are ignored, as other lists do.
 *
 * @throws {InvalidRequestError} naming the parameter
 */
export function parseModelQuery(given: URLSearchParams): ModelQuery {
  return {
    parameters: names(given, 'supported_parameters'),
    inputs: names(given, 'input_modalities'),
    // OpenRouter's word for any.
    outputs: given.get('output_modalities') === 'all' ? [] : names(given, 'output_modalities'),
    text: (textOf(given, 'q') ?? '').toLowerCase(),
    offset: countOf(given, 'offset', 0) ?? 0,
    limit: countOf(given, 'limit', 1),
  };
}

/** The query of the next page. */
export function nextPageOf({ parameters, inputs, outputs, text, offset, limit = 0 }: ModelQuery): string {
  const query = new URLSearchParams({
    ...(parameters.length > 0 && { supported_parameters: parameters.join(',') }),
    ...(inputs.length > 0 && { input_modalities: inputs.join(',') }),
    ...(outputs.length > 0 && { output_modalities: outputs.join(',') }),
    ...(text !== '' && { q: text }),
    limit: String(limit),
    offset: String(offset + limit),
  });
  return query.toString();
}

function textOf(given: URLSearchParams, name: string): string | undefined {
  const text = given.get(name);
  if (text === null || text === '') return undefined;
  if (text.length > MAX_TEXT) throw invalid(name, `at most ${MAX_TEXT} characters`);
  return text;
}

/** Sorted, so that the links of equal queries are equal. */
function names(given: URLSearchParams, name: string): readonly string[] {
  const text = textOf(given, name);
  if (text === undefined) return [];
  const all = text.split(',').map((each) => each.trim());
  if (!all.every((each) => /^[a-z\d_-]+$/.test(each))) {
    throw invalid(name, 'names in lower case, with commas between them');
  }
  return [...new Set(all)].sort();
}

function countOf(given: URLSearchParams, name: string, least: number): number | undefined {
  const text = textOf(given, name);
  if (text === undefined) return undefined;
  const value = /^\d{1,9}$/.test(text) ? Number(text) : -1;
  if (value >= least) return value;
  throw invalid(name, `an integer from ${least} to 999999999`);
}

function invalid(name: string, wanted: string): InvalidRequestError {
  return new InvalidRequestError('invalid_value', `The query parameter ${name} must be ${wanted}.`, name);
}
