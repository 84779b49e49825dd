import type { Catalog } from '../../catalog/catalog.ts';
import type { Target } from '../../catalog/model.ts';
import { discoveredModels } from '../../catalog/discovered-models.ts';
import type { ListedModel } from '../../catalog/provider-model-list.ts';
import type { ResolveContext } from '../../catalog/resolve-model.ts';
import type { BodyRules } from '../../options/body-rules.ts';
import type { ServerConfig } from '../../options/server-options.ts';

/** A model of a provider to probe. */
export interface CheckedTarget {
  /** The provider's name for it. */
  readonly model: string;
  /** Body rules of the probe: those of the first model of the config that has some for it. */
  readonly body: BodyRules | undefined;
  /** A target with prices for each model of the config that it serves. */
  readonly serves: readonly Target[];
}

/** A target of a wildcard entry of `models`, which only the provider's model list can expand. */
export interface WildcardTarget {
  readonly entry: string;
  /** The provider's model name, with a wildcard. */
  readonly model: string;
  readonly body: BodyRules | undefined;
}

/** The targets of a config at one provider. */
export interface NamedTargets {
  readonly targets: readonly CheckedTarget[];
  readonly wildcards: readonly WildcardTarget[];
}

/** By provider: its upstream models, each once, and its wildcard entries. */
export function namedTargets({ models }: ServerConfig, catalog: Catalog): ReadonlyMap<string, NamedTargets> {
  const found = new Map<string, { targets: Map<string, CheckedTarget>; wildcards: WildcardTarget[] }>();
  for (const [id, { targets }] of Object.entries(models)) {
    const isEntry = id.includes('*');
    const made = catalog.get(isEntry ? id.replace('*', 'check') : id);
    const resolved = made?.wildcard === (isEntry ? id : undefined) ? made : undefined;
    for (const [n, target] of targets.entries()) {
      const [, provider = '', model = ''] =
        typeof target === 'string'
          ? (/^([^/]*)\/(.*)$/s.exec(target) ?? [])
          : [undefined, target.provider, target.model];
      const body = typeof target === 'string' ? undefined : target.body;
      const ofProvider = found.get(provider) ?? { targets: new Map<string, CheckedTarget>(), wildcards: [] };
      found.set(provider, ofProvider);
      if (isEntry && model.includes('*')) {
        ofProvider.wildcards.push({ entry: id, model, body });
        continue;
      }
      const before = ofProvider.targets.get(model);
      const serves = before?.serves ?? [];
      const priced = resolved?.targets[n];
      // If one model serves every ID of a wildcard entry, it is named by the entry.
      ofProvider.targets.set(model, {
        model,
        body: before?.body ?? body,
        serves: priced ? [...serves, { ...priced, modelId: id }] : serves,
      });
    }
  }
  return new Map(
    [...found].map(([provider, { targets, wildcards }]) => [
      provider,
      { targets: [...targets.values()], wildcards },
    ]),
  );
}

/** The first listed chat model that a wildcard entry or discovery expands to. */
export interface Sample {
  /** The wildcard entry, or `discovered`. */
  readonly sampleOf: string;
  /** The provider's name of the model, or the wildcard if none is listed. */
  readonly model: string;
  /** Undefined if none is listed. */
  readonly target: Target | undefined;
  readonly body: BodyRules | undefined;
}

/** Lists contain all kinds of models, mostly without their purpose: these come last. */
const NOT_CHAT_MODELS =
  /embed|whisper|tts|dall-e|moderation|transcri|realtime|image|sora|babbage|davinci|rerank/i;

/**
 * A sample for each wildcard entry, and one for discovery.
 *
 * @param isShown - whether an ID may be shown: some providers echo API keys
 */
export function samplesOf(
  provider: string,
  wildcards: readonly WildcardTarget[],
  listed: readonly ListedModel[],
  isShown: (id: string) => boolean,
  catalog: Catalog,
  context: Omit<ResolveContext, 'providers'>,
): readonly Sample[] {
  const resolved = catalog.providers.get(provider);
  const shown = listed.filter(({ id }) => isShown(id));
  const likelyFirst = [
    ...shown.filter(({ id }) => !NOT_CHAT_MODELS.test(id)),
    ...shown.filter(({ id }) => NOT_CHAT_MODELS.test(id)),
  ];
  const found = resolved
    ? discoveredModels(resolved, likelyFirst, { ...context, providers: catalog.providers })
    : [];
  const all = catalog.with(found);
  const samples = wildcards.map(({ entry, model, body }): Sample => {
    const [before = '', after = ''] = model.split('*');
    for (const { id } of likelyFirst) {
      // Google lists `models/gemini-2.5-flash`, and accepts it without the prefix as well.
      for (const name of [id, id.replace(/^models\//, '')]) {
        if (!name.startsWith(before) || !name.endsWith(after)) continue;
        const rest = name.slice(before.length, name.length - after.length);
        const made = all.get(entry.replace('*', () => rest));
        const target = made?.targets.find((each) => each.provider.name === provider && each.model === name);
        if (made?.wildcard === entry && target) {
          return { sampleOf: entry, model: name, target, body };
        }
      }
    }
    return { sampleOf: entry, model, target: undefined, body };
  });
  if (!resolved?.discovery) return samples;
  // The config's own entries win.
  const [target] = found.find((model) => all.get(model.id) === model)?.targets ?? [];
  if (!target && found.length > 0) return samples;
  return [...samples, { sampleOf: 'discovered', model: target?.model ?? '*', target, body: undefined }];
}
