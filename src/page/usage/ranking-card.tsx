import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';

import { usePoints } from '../tooltip.tsx';
import { type Candidate, type Rank, rank } from './ranking.ts';

export interface RankingCardProps {
  readonly id: string;
  /** `model` or `key`. */
  readonly noun: string;
  /** Memoized. */
  readonly candidates: readonly Candidate[];
}

export function RankingCard({ id, noun, candidates }: RankingCardProps): JSX.Element {
  const ranks = useMemo(() => rank(candidates), [candidates]);
  return (
    <section class="card" aria-labelledby={`${id}-title`}>
      <div class="title">
        <h2 id={`${id}-title`}>{`By ${noun}`}</h2>
      </div>
      {ranks.length > 0 ? (
        <Ranking id={id} noun={noun} ranks={ranks} />
      ) : (
        <p id={`${id}-empty`} class="nothing">{`No ${noun} in this range.`}</p>
      )}
    </section>
  );
}

function Ranking({
  id,
  noun,
  ranks,
}: Omit<RankingCardProps, 'candidates'> & { readonly ranks: readonly Rank[] }): JSX.Element {
  const points = useMemo(() => ranks.map(({ point }) => point), [ranks]);
  const handlers = usePoints(points, 0);
  const first = ranks[0] ? `; the first, ${ranks[0].name}, ${ranks[0].value}` : '';
  const summary = `Charges by ${noun}${first}. Use the arrow keys to move between ${noun}s.`;
  return (
    <div id={id} class="plot ranks" aria-label={summary} {...handlers.plot}>
      {ranks.map(({ name, detail, href, tone, share, value, note }, i) => (
        <div class="rank" key={i} {...handlers.point(i)}>
          <span class="name">
            {href === undefined ? name : <a href={href}>{name}</a>}{' '}
            {detail !== undefined && <small>{detail}</small>}
          </span>
          <span class="note number">{note}</span>
          <span class="value number">{value}</span>
          <svg class="track" width="100%" height={6} aria-hidden="true">
            <rect class="rail" width="100%" height={6} rx={3} />
            <rect class={tone} width={`${Math.max(0.6, share * 100)}%`} height={6} rx={3} />
          </svg>
        </div>
      ))}
    </div>
  );
}
