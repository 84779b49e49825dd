import type { BodyRule } from '../../http/apply-body-rules.ts';
import type { Target } from '../../catalog/model.ts';

/** What a target's requests become, on a line; undefined where they stay as they are. */
export function describeBodyRules({ modelId, provider, model, body }: Target): string | undefined {
  if (!body) return undefined;
  return `${modelId} at ${provider.name}/${model}: ${body.rules.map(describeRule).join(', ')}`;
}

/** What may be a secret, as texts may, is not shown. */
function describeRule(rule: BodyRule): string {
  if (rule.action === 'drop') return `drop ${rule.name}`;
  if (rule.action === 'rename') return `rename ${rule.name} to ${rule.to}`;
  const { action, name, value } = rule;
  if (typeof value === 'function') return `${action} ${name} by a function`;
  const { 0: first = '', length } = value;
  const isText = first === '"' || first === '{' || first === '[';
  return `${action} ${name} to ${isText ? `${first}…${value[length - 1]}` : value}`;
}
