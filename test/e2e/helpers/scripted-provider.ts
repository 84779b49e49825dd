import {
  chunk,
  completion,
  type CompletionFields,
  DONE,
  error,
  hang,
  type Part,
  pause,
  rateLimited,
  type ReceivedRequest,
  type RequestFields,
  reset,
  respond,
  type Script,
  sequence,
  startFakeProvider,
  stream,
} from '../../../src/testing.ts';

/** The request header that carries the router's id of a request to the provider. */
export const REQUEST_ID_HEADER = 'x-e2e-request-id';

/** What the provider told of tokens: `cached` are among those of the prompt. */
export interface ToldUsage {
  readonly prompt: number;
  readonly completion: number;
  readonly cached: number;
}

/**
 * What a prompt can ask for: it names one of them as `scenario:gate`, anywhere in its messages.
 *
 * | scenario | answer |
 * |---|---|
 * | none | text; a tool call where there are tools and no result yet; JSON where there is a `json_schema`; usage is told |
 * | `gate` | a stream of six words that stops after the third one until the client calls `CONTINUE_URL` |
 * | `endless` | a stream of words that ends only when the client has left; usage is not told |
 * | `silent` | nothing, until the client has left |
 * | `untold` | text without any usage |
 * | `cut` | a stream of three words, then the connection is reset |
 * | `failing` | a stream of three words, then an error event |
 * | `busy` | 429 to the first request of each kind and text, then as without a scenario |
 * | `broken` | 500 |
 * | `too-long` | 400 `context_length_exceeded` |
 */
export type Scenario =
  | 'none'
  | 'gate'
  | 'endless'
  | 'silent'
  | 'untold'
  | 'cut'
  | 'failing'
  | 'busy'
  | 'broken'
  | 'too-long';

/** A request for a completion, as the provider served it. */
export interface Served {
  readonly scenario: Scenario;
  /** The router's id of the request; undefined where another program stands between. */
  readonly requestId: string | undefined;
  readonly fields: RequestFields;
  /** What it told of usage, once it was told in full. */
  told: ToldUsage | undefined;
  /** It refused the request. */
  refused: boolean;
  /** The other side closed the connection before the answer was complete. */
  left: boolean;
  /** Words of the answer that have left the provider; of streams with a scenario alone. */
  words: number;
  /** At the gate: the client called before the time was up, so it had the words before it. */
  passed: boolean | undefined;
}

export interface ScriptedProvider {
  readonly baseURL: string;
  /** A GET lets the streams that stand at the gate go on. */
  readonly continueURL: string;
  readonly served: readonly Served[];
  /** The requests as they came, those for the gate included. */
  readonly received: readonly ReceivedRequest[];
  close(): Promise<void>;
}

/** What the provider knows; an answer with a schema, or the arguments of a tool, have those that are asked for. */
const FACTS: Readonly<Record<string, unknown>> = { city: 'Oslo', name: 'Oslo', population: 709_000 };
/** A client that has the words before the gate calls at once, also on a busy machine. */
const GATE_MS = 20_000;
/** Between the words of an endless stream. */
const WORD_MS = 20;
/** An endless stream does end, where its client never leaves. */
const MAX_WORDS = 1500;

/** Starts a provider on loopback whose answers depend on what is asked; each has a usage of its own. */
export async function startScriptedProvider(): Promise<ScriptedProvider> {
  const fake = await startFakeProvider();
  const served: Served[] = [];
  const stage: Stage = { gates: new Set(), wereBusy: new Set() };
  fake.answer((response, request) => {
    if (request.url === '/continue') {
      for (const open of stage.gates) open();
      stage.gates.clear();
      return respond(200, 'ok')(response, request);
    }
    if (!request.url.endsWith('/chat/completions')) return error(404)(response, request);
    const record = recordOf(request);
    served.push(record);
    void request.aborted.then(() => (record.left = true));
    // No two of them are the same, so that a charge shows whose usage it is.
    const usage = { prompt: 100 + served.length, completion: 20 + served.length, cached: 10 };
    return scriptOf(record, usage, stage)(response, request);
  });
  return {
    baseURL: fake.baseURL,
    continueURL: new URL('/continue', fake.baseURL).href,
    served,
    received: fake.requests,
    close: () => fake.close(),
  };
}

function recordOf({ headers, json }: ReceivedRequest): Served {
  const [, scenario = 'none'] = /scenario:([a-z-]+)/.exec(JSON.stringify(json.messages)) ?? [];
  const requestId = headers[REQUEST_ID_HEADER];
  return {
    scenario: scenario as Scenario,
    requestId: typeof requestId === 'string' ? requestId : undefined,
    fields: json,
    told: undefined,
    refused: false,
    left: false,
    words: 0,
    passed: undefined,
  };
}

/** What the requests of a provider share. */
interface Stage {
  /** Each lets a stream go on that stands at the gate. */
  readonly gates: Set<() => void>;
  /** Requests that were refused once. */
  readonly wereBusy: Set<string>;
}

function scriptOf(served: Served, usage: ToldUsage, { gates, wereBusy }: Stage): Script {
  const { scenario, fields } = served;
  const answered = sequence(() => (served.told = usage), completion({ ...answerTo(fields), tokens: usage }));
  const refused = (script: Script): Script => sequence(() => (served.refused = true), script);
  const words = (...texts: string[]): Part[] =>
    texts.flatMap((text) => [chunk(`${text} `), () => (served.words += 1)]);

  switch (scenario) {
    case 'none':
      return answered;
    case 'gate': {
      // It is there before the third word: the client may call as soon as it has that.
      const passage = new Promise<boolean>((resolve) => {
        gates.add(() => resolve(true));
        setTimeout(() => resolve(false), GATE_MS).unref();
      });
      const pass: Script = async () => (served.passed = await passage);
      const isAsked = fields.stream_options?.include_usage === true;
      return stream(
        ...words('one', 'two', 'three'),
        pass,
        ...words('four', 'five', 'six'),
        chunk({ choices: [{ index: 0, delta: {}, finish_reason: 'stop' }] }),
        () => (served.told = isAsked ? usage : undefined),
        ...(isAsked ? [usageEvent(usage)] : []),
        DONE,
      );
    }
    case 'endless':
      return stream(...Array.from({ length: MAX_WORDS }, () => [...words('on'), pause(WORD_MS)]).flat());
    case 'silent':
      return hang;
    case 'untold':
      return completion({ ...answerTo(fields), usage: null });
    case 'cut':
      return stream(...words('cut', 'off', 'here'), pause(WORD_MS), reset);
    case 'failing':
      return stream(
        ...words('not', 'to', 'last'),
        'data: {"error":{"message":"Overloaded.","code":null}}\n\n',
      );
    case 'busy': {
      const kind = `${fields.stream === true} ${JSON.stringify(fields.messages)}`;
      if (wereBusy.has(kind)) return answered;
      wereBusy.add(kind);
      return refused(rateLimited());
    }
    case 'broken':
      return refused(error(500, { message: 'The server had an error.' }));
    case 'too-long':
      return refused(error(400, TOO_LONG));
    default:
      throw new TypeError(`no such scenario: ${String(scenario)}`);
  }
}

const TOO_LONG = {
  message: "This model's maximum context length is 8192 tokens.",
  param: 'messages',
  code: 'context_length_exceeded',
};

function usageEvent({ prompt, completion: output, cached }: ToldUsage): string {
  const usage = {
    prompt_tokens: prompt,
    completion_tokens: output,
    total_tokens: prompt + output,
    prompt_tokens_details: { cached_tokens: cached },
  };
  return chunk({ choices: [], usage });
}

/** What a model would answer to it. */
function answerTo(fields: RequestFields): Partial<CompletionFields> {
  const {
    tools,
    messages = [],
    response_format: format,
  } = fields as RequestFields & {
    readonly tools?: readonly { readonly function: ToolFields }[];
    readonly response_format?: { readonly json_schema?: { readonly schema?: JsonSchema } };
  };
  const [tool] = tools ?? [];
  const hasResult = messages.some(({ role }) => role === 'tool');
  if (tool && !hasResult) {
    const { name, parameters } = tool.function;
    return { toolCalls: [{ name, arguments: factsOf(parameters) }] };
  }
  if (format?.json_schema) return { json: factsOf(format.json_schema.schema) };
  if (hasResult) return { content: 'It is sunny in Oslo.' };
  return { content: 'Hello from the provider.' };
}

interface ToolFields {
  readonly name: string;
  readonly parameters?: JsonSchema;
}

interface JsonSchema {
  readonly properties?: Readonly<Record<string, unknown>>;
}

function factsOf({ properties = {} }: JsonSchema = {}): object {
  return Object.fromEntries(Object.keys(properties).map((name) => [name, FACTS[name] ?? null]));
}
