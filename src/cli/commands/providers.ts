import type {
  AttemptStats,
  LimitUse,
  ProviderFault,
  ProviderKey,
  ProviderStatus,
} from '../../client/admin-api.generated.ts';
import type { Column } from '../terminal/listing.ts';
import { type GatewayCommand, type Invocation, UsageError, wholeNumber } from './command.ts';

export const providersCommand: GatewayCommand = {
  name: 'providers',
  summary: 'Show the providers of a running gateway: state, errors, speed',
  asksGateway: true,
  positionals: '',
  options: {
    errors: { help: 'show the last errors of each provider instead, newest first' },
    keys: { help: 'show the API keys of each provider instead, with their rate limits' },
    limits: { help: 'show what is used of the limits of the options instead' },
    waiting: { help: 'show how many requests wait for each model instead' },
  },
  printsRows: true,
  examples: ['providers', 'providers --limits', 'providers --url https://api.example.com/admin --json'],
  async run({ options: { errors, keys, limits, waiting }, gateway, list }) {
    const given = Object.entries({ errors, keys, limits, waiting }).filter(
      ([, value]) => value !== undefined,
    );
    if (given.length > 1) {
      throw new UsageError(`${given.map(([name]) => `--${name}`).join(' and ')} exclude each other`);
    }
    const { data, waiting: lines } = await gateway.listProviders();
    if (errors !== undefined) {
      await list({ columns: ERROR_COLUMNS, rows: data.flatMap(errorsOf), none: 'no errors' });
    } else if (keys !== undefined) {
      await list({ columns: KEY_COLUMNS, rows: data.flatMap(keysOf), none: 'no keys' });
    } else if (limits !== undefined) {
      await list({ columns: LIMIT_COLUMNS, rows: data.flatMap(limitsOf), none: 'no limits' });
    } else if (waiting !== undefined) {
      await list({
        columns: ['model', 'waiting', 'most'],
        rows: lines,
        none: 'no model has the option wait',
      });
    } else {
      const rows = data.flatMap(statesOf);
      await list({ columns: STATE_COLUMNS, rows, none: 'no providers', objects: data });
    }
    return true;
  },
};

export const ejectProviderCommand: GatewayCommand = {
  name: 'providers eject',
  summary: 'Send nothing more to a provider, or to one of its models',
  asksGateway: true,
  positionals: 'PROVIDER[/MODEL]',
  options: {
    reason: { value: 'TEXT', help: 'why, for operators' },
    for: { value: 'SECONDS', help: 'for how long; default: until it is readmitted' },
  },
  examples: ['providers eject groq', 'providers eject openai/gpt-5 --for 600 --reason "wrong answers"'],
  async run(invocation) {
    const { reason, for: seconds } = invocation.options;
    const place = placeOf(invocation);
    const after = await invocation.gateway.ejectProvider({
      ...place,
      ...(reason !== undefined && { reason }),
      ...(seconds !== undefined && { for_ms: wholeNumber(seconds, '--for') * 1000 }),
    });
    printState(invocation, place, after);
    return true;
  },
};

export const readmitProviderCommand: GatewayCommand = {
  name: 'providers readmit',
  summary: 'End the ejection of a provider with all its models, or of one of them',
  asksGateway: true,
  positionals: 'PROVIDER[/MODEL]',
  options: {},
  examples: ['providers readmit groq', 'providers readmit openai/gpt-5'],
  async run(invocation) {
    const place = placeOf(invocation);
    printState(invocation, place, await invocation.gateway.readmitProvider(place));
    return true;
  },
};

export const weightCommand: GatewayCommand = {
  name: 'providers weight',
  summary: 'Set the share of the requests of a model that a provider gets',
  asksGateway: true,
  positionals: 'MODEL PROVIDER[/MODEL] WEIGHT',
  options: {},
  examples: ['providers weight openai/gpt-5 azure 3', 'providers weight openai/gpt-5 openai/gpt-5-mini 0.5'],
  async run({ positionals: [model = '', place = '', text = ''], gateway, print }) {
    if (!/^\d+(\.\d+)?(e[+-]?\d+)?$/i.test(text)) {
      throw new UsageError(`WEIGHT must be a number of 0 or more, got ${JSON.stringify(text)}`);
    }
    const after = await gateway.setWeight({ ...partsOf(place), model, weight: Number(text) });
    const lines = after.targets.map(
      ({ provider, model: upstream, weight }) => `${provider}/${upstream} ${weight}`,
    );
    print(`${model}: ${lines.join(', ')}`, after);
    return true;
  },
};

function placeOf({ positionals: [place = ''] }: Invocation): Place {
  return partsOf(place);
}

interface Place {
  readonly name: string;
  readonly target?: string;
}

/** A provider's name has no slash, a model's may have. */
function partsOf(place: string): Place {
  const [name = ''] = place.split('/', 1);
  return place === name ? { name } : { name, target: place.slice(name.length + 1) };
}

function printState({ print }: Invocation, { name, target }: Place, after: ProviderStatus): void {
  const found = target === undefined ? after : after.targets.find(({ model }) => model === target);
  const { state = 'unused', ejection } = found ?? {};
  const until = ejection?.until === undefined ? '' : ` until ${ejection.until}`;
  const where = after.changes_reach === 'this_process' ? ', in the process that answered' : '';
  print(`${target === undefined ? name : `${name}/${target}`}: ${state}${until}${where}`, after);
}

/** A provider, or one of its targets. */
type State = Pick<ProviderStatus, 'state' | 'since' | 'retry_at' | 'running' | 'recent'> & {
  readonly provider: string;
  readonly model?: string;
};

/** A row of a provider, and one of each of its targets. */
function statesOf({ name: provider, targets, ...status }: ProviderStatus): State[] {
  return [{ provider, ...status }, ...targets.map((target) => ({ provider, ...target }))];
}

const STATE_COLUMNS: readonly (Column<State> | keyof State)[] = [
  'provider',
  'model',
  'state',
  'since',
  'retry_at',
  'running',
  recent('requests'),
  recent('errors'),
  recent('first_byte_p50_ms'),
  recent('first_byte_p95_ms'),
  recent('tokens_per_second'),
  recent('prompt_tokens'),
  recent('cached_tokens'),
];

function recent(name: keyof AttemptStats): Column<State> {
  return { name, value: (state) => state.recent[name] };
}

type Fault = ProviderFault & { readonly provider: string };

function errorsOf({ name: provider, errors }: ProviderStatus): Fault[] {
  return errors.map((fault) => ({ provider, ...fault }));
}

const ERROR_COLUMNS: readonly (keyof Fault)[] = [
  'at',
  'provider',
  'model',
  'request_id',
  'status',
  'code',
  'provider_code',
  'message',
];

/** A key, with one of its limits. */
type Key = Omit<ProviderKey, 'name' | 'limits'> & {
  readonly provider: string;
  readonly key: string;
} & Partial<ProviderKey['limits'][number]>;

/** A row of each limit of a key, or one of a key without any. */
function keysOf({ name: provider, keys }: ProviderStatus): Key[] {
  return keys.flatMap(({ name: key, limits, ...rest }) => {
    const start = { provider, key, ...rest };
    return limits.length === 0 ? [start] : limits.map((limit) => ({ ...start, ...limit }));
  });
}

const KEY_COLUMNS: readonly (keyof Key)[] = [
  'provider',
  'key',
  'masked',
  'state',
  'until',
  'model',
  'name',
  'remaining',
  'limit',
  'reset_at',
];

/** One limit of the options. */
type Limit = LimitUse & {
  readonly provider: string;
  readonly model: string | undefined;
  readonly key: string | undefined;
  readonly processes: number | undefined;
  readonly name: string;
};

function limitsOf({ name: provider, limits }: ProviderStatus): Limit[] {
  return limits.flatMap(({ model, key, processes, ...uses }) =>
    Object.entries(uses).map(([name, use]) => ({ provider, model, key, processes, name, ...use })),
  );
}

const LIMIT_COLUMNS: readonly (keyof Limit)[] = [
  'provider',
  'model',
  'key',
  'name',
  'used',
  'left',
  'limit',
  'processes',
];
