import type { AttemptEnded, ResponseEnded } from '../hooks.ts';

/** Names of the semantic conventions for presets that have other names here. */
const PROVIDER_NAMES: ReadonlyMap<string, string> = new Map([
  ['azure', 'azure.ai.openai'],
  ['azure-deployments', 'azure.ai.openai'],
  ['bedrock', 'aws.bedrock'],
  ['gemini', 'gcp.gemini'],
  ['mistral', 'mistral_ai'],
  ['moonshot', 'moonshot_ai'],
  ['vertex', 'gcp.vertex_ai'],
  ['xai', 'x_ai'],
]);

/** `gen_ai.provider.name` of a configured provider. */
export function providerName(name: string): string {
  return PROVIDER_NAMES.get(name) ?? name;
}

/** Attributes that spans and metrics of a request to a provider have in common. */
export function attemptAttributes({
  provider,
  model,
  host,
  port,
}: Pick<AttemptEnded, 'provider' | 'model' | 'host' | 'port'>): Record<string, string | number> {
  return {
    'gen_ai.operation.name': 'chat',
    'gen_ai.provider.name': providerName(provider),
    'gen_ai.request.model': model,
    'server.address': host,
    'server.port': port,
  };
}

/** `error.type` of a request to a provider: our code, else the provider's status; undefined on success, or if the client left. */
export function attemptError({ errorCode, status }: AttemptEnded): string | undefined {
  if (errorCode === 'client_gone') return undefined;
  return errorCode ?? (status !== undefined && status >= 400 ? String(status) : undefined);
}

/** `error.type` of a request to the router. */
export function responseError({ errorCode, status, ending }: ResponseEnded): string | undefined {
  if (ending === 'client_gone' || status === CLIENT_CLOSED_REQUEST) return undefined;
  return errorCode ?? (status >= 400 ? String(status) : undefined);
}

const CLIENT_CLOSED_REQUEST = 499;
