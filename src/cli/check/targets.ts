import type { Catalog } from '../../catalog/catalog.ts';
import type { Target } from '../../catalog/model.ts';
import { discoveredModels } from '../../catalog/discovered-models.ts';
import type { ListedModel } from '../../catalog/provider-model-list.ts';
import type { ResolveContext } from '../../catalog/resolve-model.ts';
import type { BodyRules } from '../../options/body-rules.ts';
import type { ServerConfig } from '../../options/server-options.ts';

/** A model of a provider that is asked for a token. */
export interface CheckedTarget {
  /** Its name there. */
  readonly model: string;
  /** With which it is asked: those of the first model that has some there. */
  readonly body: BodyRules | undefined;
  /** A target for each model of the config that it serves, with the prices there. */
  readonly serves: readonly Target[];
}

/** An entry of `models` with a star, at a provider: it stands for models that only its list can tell. */
export interface WildcardTarget {
  readonly entry: string;
  /** The model's name there, with a star. */
  readonly model: string;
  readonly body: BodyRules | undefined;
}

/** What a config names of a provider. */
export interface NamedTargets {
  readonly targets: readonly CheckedTarget[];
  readonly wildcards: readonly WildcardTarget[];
}

/** The upstream models of each provider, each once, and the entries whose models can't be told yet. */
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
      // Where every ID of an entry is served by the same model, it is known by the entry.
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

/** The first model for chats that a provider lists of many; none where it lists none of them. */
export interface Sample {
  /** The entry with a star, or `discovered`. */
  readonly sampleOf: string;
  /** The name of the model there, or what stands for it in the config. */
  readonly model: string;
  readonly target: Target | undefined;
  readonly body: BodyRules | undefined;
}

/** Lists have all that a provider has, and mostly say nothing of what it is for: these come last. */
const NOT_CHAT_MODELS =
  /embed|whisper|tts|dall-e|moderation|transcri|realtime|image|sora|babbage|davinci|rerank/i;

/**
 * A model for each entry with a star, and one for what is discovered.
 *
 * @param isShown - whether an ID may be shown: providers have been seen to say keys back
 */
export function samplesOf(
  provider: string,
  wildcards: readonly WildcardTarget[],
  listed: readonly ListedModel[],
  isShown: (id: string) => boolean,
  catalog: Catalog,
  surroundings: Omit<ResolveContext, 'providers'>,
): readonly Sample[] {
  const asked = catalog.providers.get(provider);
  const shown = listed.filter(({ id }) => isShown(id));
  const likelyFirst = [
    ...shown.filter(({ id }) => !NOT_CHAT_MODELS.test(id)),
    ...shown.filter(({ id }) => NOT_CHAT_MODELS.test(id)),
  ];
  const found = asked
    ? discoveredModels(asked, likelyFirst, { ...surroundings, providers: catalog.providers })
    : [];
  const all = catalog.with(found);
  const samples = wildcards.map(({ entry, model, body }): Sample => {
    const [before = '', after = ''] = model.split('*');
    for (const { id } of likelyFirst) {
      // Google lists `models/gemini-2.5-flash`, and takes it without as well.
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
  if (!asked?.discovery) return samples;
  // The config's own entries win.
  const [target] = found.find((model) => all.get(model.id) === model)?.targets ?? [];
  if (!target && found.length > 0) return samples;
  return [...samples, { sampleOf: 'discovered', model: target?.model ?? '*', target, body: undefined }];
}
