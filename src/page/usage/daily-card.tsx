import type { JSX } from 'preact';
import { useMemo } from 'preact/hooks';

import { grouped, longDay, money } from '../format.ts';
import { type Segment, Segments } from '../segments.tsx';
import { Column, NumberCell, Table } from '../table.tsx';
import { dailyChart, dailySums } from './daily-chart.ts';
import { DailyPlot } from './daily-plot.tsx';
import type { RangeUsage } from './range-usage.ts';
import type { Unit } from './units.ts';

const UNITS: readonly Segment<Unit>[] = [
  { value: 'charged', content: 'Charge' },
  { value: 'requests', content: 'Requests' },
  { value: 'tokens', content: 'Tokens' },
];

export interface DailyCardProps {
  readonly usage: RangeUsage;
  readonly tones: ReadonlyMap<string, string>;
  readonly unit: Unit;
  readonly chooseUnit: (unit: Unit) => void;
}

/** Usage by day, as a plot and as a table. */
export function DailyCard({ usage, tones, unit, chooseUnit }: DailyCardProps): JSX.Element {
  const chart = useMemo(() => dailyChart(usage, unit, tones), [usage, unit, tones]);
  const isEmpty = usage.models.every(({ requests }) => requests === 0);
  return (
    <section class="card" aria-labelledby="daily-title">
      <div class="title">
        <h2 id="daily-title">By day</h2>
        <Segments
          id="unit"
          label="What the bars show"
          segments={UNITS}
          value={unit}
          choose={chooseUnit}
          small
        />
      </div>
      {isEmpty ? (
        <p id="daily-empty" class="nothing">{`No usage in the last ${usage.days.length} days.`}</p>
      ) : (
        <>
          <ul id="legend" class="legend">
            {chart.series.map(({ name, tone }) => (
              <li key={tone}>
                <i class={`swatch ${tone}`} />
                <span>{name}</span>
              </li>
            ))}
          </ul>
          <DailyPlot chart={chart} />
          <DailyTable usage={usage} />
        </>
      )}
    </section>
  );
}

function DailyTable({ usage }: { readonly usage: RangeUsage }): JSX.Element {
  const hasCost = usage.models.some(({ cost }) => cost !== undefined);
  const head = (
    <>
      <Column>Day (UTC)</Column>
      {['Requests', 'Errors', 'Aborted', 'Tokens', 'Charged', ...(hasCost ? ['Cost'] : [])].map((name) => (
        <Column key={name} class="number">
          {name}
        </Column>
      ))}
    </>
  );
  const days = useMemo(() => dailySums(usage), [usage]);
  return (
    <details id="daily-details">
      <summary>The same as a table</summary>
      <Table id="daily-rows" head={head}>
        {days.map(({ day, sums }) => (
          <tr key={day}>
            <th scope="row">{longDay(day)}</th>
            <NumberCell>{grouped(sums.requests)}</NumberCell>
            <NumberCell>{grouped(sums.errors)}</NumberCell>
            <NumberCell>{grouped(sums.aborted)}</NumberCell>
            <NumberCell>{grouped(sums.tokens)}</NumberCell>
            <NumberCell>{money(sums.charged)}</NumberCell>
            {hasCost && <NumberCell>{sums.cost === 0n ? '–' : money(sums.cost)}</NumberCell>}
          </tr>
        ))}
      </Table>
    </details>
  );
}
