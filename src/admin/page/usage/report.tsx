import type { JSX } from 'preact';
import { useMemo, useState } from 'preact/hooks';

import type { AccountLine } from './account-lines.ts';
import { Accounts } from './accounts.tsx';
import { DailyCard } from '../../../page/usage/daily-card.tsx';
import { LiveRequests } from './live-requests.tsx';
import { Providers } from './providers.tsx';
import { keyCandidates, modelCandidates } from '../../../page/usage/ranking.ts';
import { RankingCard } from '../../../page/usage/ranking-card.tsx';
import { Tiles } from './tiles.tsx';
import { ModelTones } from '../../../page/usage/tones.ts';
import type { LoadedRange, LoadedLive } from './use-usage.ts';
import type { Unit } from '../../../page/usage/units.ts';

export interface ReportProps {
  readonly range: LoadedRange;
  /** Of all accounts; undefined until loaded. */
  readonly lines: readonly AccountLine[] | undefined;
  readonly live: LoadedLive | undefined;
  /** The shown data may be outdated. */
  readonly isStale: boolean;
  readonly chooseAccount: (account: string) => void;
}

/** Usage of a range of days, and the current status. */
export function Report({ range, lines, live, isStale, chooseAccount }: ReportProps): JSX.Element {
  const { usage, account } = range;
  const [unit, setUnit] = useState<Unit>('charged');
  const [modelTones] = useState(() => new ModelTones());
  const tones = useMemo(() => modelTones.of(usage.models), [modelTones, usage]);
  const models = useMemo(() => modelCandidates(usage, tones), [usage, tones]);
  const keys = useMemo(() => keyCandidates(usage), [usage]);
  const chosen = account === '' ? lines : lines?.filter((line) => line.account === account);
  const at = live?.at ?? 0;
  return (
    <div id="report" data-stale={isStale ? '' : undefined}>
      <Tiles usage={usage} lines={chosen} account={account} />
      <DailyCard usage={usage} tones={tones} unit={unit} chooseUnit={setUnit} />
      <div class="pair">
        <RankingCard id="models" noun="model" candidates={models} />
        <RankingCard id="keys" noun="key" candidates={keys} />
      </div>
      <div class="pair">
        <LiveRequests requests={live?.requests} at={at} />
        <Providers targets={live?.targets} at={at} />
      </div>
      <Accounts lines={lines} choose={chooseAccount} />
    </div>
  );
}
