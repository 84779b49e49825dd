import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { FoundRequests, ModelList } from '../../../client/admin-api.generated.ts';
import type { Api } from '../../../page/api.ts';
import type { UsageRow } from '../../../page/usage/range-usage.ts';
import { lastDays } from '../../../page/format.ts';
import { Frame } from '../frame.tsx';
import { useResource } from '../../../page/resource.ts';
import type { ViewProps } from '../view-props.ts';
import { ModelTable, type ModelRow, type SetWeight } from './model-table.tsx';
import { RefusedCard } from './refused-card.tsx';

const REFRESH_MS = 60_000;
const DAYS = 30;
const FIRST_SHOWN = 50;
const REFUSED_ROWS = '10';

interface ModelData {
  readonly models: readonly ModelRow[];
  readonly refused: FoundRequests;
}

/** What is sold: prices, margins, where requests go, and what was refused for want of a price. */
export function ModelsView({ session }: ViewProps): JSX.Element {
  const [search, setSearch] = useState('');
  const [shown, setShown] = useState(FIRST_SHOWN);
  const { data, notice, reload } = useResource<ModelData>(session, {
    subject: 'models',
    everyMs: REFRESH_MS,
    ask: () => modelData(session.api),
  });
  const setWeight: SetWeight = async ({ id }, { provider, model }, weight, key) => {
    const path = `providers/${encodeURIComponent(provider)}/weight`;
    await session.api.change('POST', path, { model: id, target: model, weight }, key);
    await reload();
  };
  const wanted = search.trim().toLowerCase();
  const found = (data?.models ?? []).filter(({ model: { id, aliases, targets } }) =>
    [id, ...aliases, ...targets.map(({ provider, model }) => `${provider}/${model}`)].some((name) =>
      name.toLowerCase().includes(wanted),
    ),
  );
  return (
    <Frame
      name="models"
      title="Models"
      session={session}
      notice={notice}
      status="USD per million tokens"
      controls={
        <input
          id="search-models"
          type="search"
          aria-label="Search models"
          placeholder="Search models"
          autocomplete="off"
          spellcheck={false}
          value={search}
          onInput={(event) => setSearch(event.currentTarget.value)}
        />
      }
    >
      {data && (
        <div id="report">
          <section class="card" aria-label="Models">
            <ModelTable
              rows={found.slice(0, shown)}
              days={DAYS}
              setWeight={session.may('providers') ? setWeight : undefined}
            />
            <button
              type="button"
              id="more"
              class="plain"
              hidden={found.length <= shown}
              onClick={() => setShown(shown * 4)}
            >
              Show more
            </button>
          </section>
          <RefusedCard refused={data.refused} />
        </div>
      )}
    </Frame>
  );
}

async function modelData(api: Api): Promise<ModelData> {
  const days = lastDays(DAYS, Date.now());
  const [from = '', to = ''] = [days[0], days.at(-1)];
  const [{ data }, usage, refused] = await Promise.all([
    api.get<ModelList>('models'),
    api.list<UsageRow>('usage', { from, to, group_by: 'model' }),
    api.get<FoundRequests>('requests', { code: 'unpriced_feature', limit: REFUSED_ROWS }),
  ]);
  const byModel = new Map(usage.data.map((row) => [row.model, row]));
  return { models: data.map((model) => ({ model, usage: byModel.get(model.id) })), refused };
}
