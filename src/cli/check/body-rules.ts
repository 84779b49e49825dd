import type { BodyRule } from '../../http/apply-body-rules.ts';
import type { Target } from '../../catalog/model.ts';

/** The body rules of a target, on a line; undefined if it has none. */
export function describeBodyRules({ modelId, provider, model, body }: Target): string | undefined {
  if (!body) return undefined;
  return `${modelId} at ${provider.name}/${model}: ${body.rules.map(describeRule).join(', ')}`;
}

/** Hides strings and objects, which may contain secrets. */
function describeRule(rule: BodyRule): string {
  if (rule.action === 'drop') return `drop ${rule.name}`;
  if (rule.action === 'rename') return `rename ${rule.name} to ${rule.to}`;
  const { action, name, value } = rule;
  if (typeof value === 'function') return `${action} ${name} by a function`;
  const { 0: first = '', length } = value;
  const isText = first === '"' || first === '{' || first === '[';
  return `${action} ${name} to ${isText ? `${first}…${value[length - 1]}` : value}`;
}
