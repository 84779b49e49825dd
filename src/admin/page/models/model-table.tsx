import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { ModelPrices, ModelTarget } from '../../../client/admin-api.generated.ts';
import { ApiError } from '../../../page/api.ts';
import type { UsageRow } from '../../../page/usage/range-usage.ts';
import { FormDialog } from '../../../page/dialog.tsx';
import { date, money, nanos, percent } from '../../../page/format.ts';
import { hrefOf } from '../../../page/route.ts';
import { Column, EmptyRow, NumberCell, Table } from '../../../page/table.tsx';

export interface ModelRow {
  readonly model: ModelPrices;
  /** Of the last days; undefined without any. */
  readonly usage: UsageRow | undefined;
}

export interface ModelTableProps {
  readonly rows: readonly ModelRow[];
  /** That the usage is of. */
  readonly days: number;
  /** Undefined if the operator may change nothing. */
  readonly setWeight: SetWeight | undefined;
}

/** Sets the weight of a target of a model. */
export type SetWeight = (
  model: ModelPrices,
  target: ModelTarget,
  weight: number,
  key: string,
) => Promise<void>;

/** A row for each target. */
export function ModelTable({ rows, days, setWeight }: ModelTableProps): JSX.Element {
  const head = (
    <>
      <Column>Model</Column>
      <Column>Goes to</Column>
      <Column class="number">Input</Column>
      <Column class="number">Output</Column>
      <Column class="number wide">Margin</Column>
      <Column class="wide">No price for</Column>
    </>
  );
  return (
    <Table id="model-rows" head={head}>
      {rows.flatMap(({ model, usage }) =>
        model.targets.map((target, n) => (
          <tr key={`${model.id} ${n}`}>
            {n === 0 && (
              <th scope="row" rowSpan={model.targets.length}>
                {model.id}
                <small>{notesOn(model)}</small>
                {usage && <Used id={model.id} usage={usage} days={days} />}
              </th>
            )}
            <TargetCells target={target} model={model} setWeight={setWeight} />
          </tr>
        )),
      )}
      {rows.length === 0 && <EmptyRow columns={6}>No model found.</EmptyRow>}
    </Table>
  );
}

function notesOn({ aliases, strategy, targets, shutdown_at: shutdownAt }: ModelPrices): string | undefined {
  const notes = [
    aliases.length === 0 ? undefined : `also ${aliases.join(', ')}`,
    targets.length === 1 ? undefined : strategy,
    shutdownAt === undefined ? undefined : `shut down ${date(shutdownAt)}`,
  ];
  return notes.filter((note) => note !== undefined).join('; ') || undefined;
}

function Used({
  id,
  usage,
  days,
}: {
  readonly id: string;
  readonly usage: UsageRow;
  readonly days: number;
}): JSX.Element {
  const charged = nanos(usage.charged);
  const cost = nanos(usage.cost);
  const margin = cost === 0n ? '' : `, margin ${percent(charged - cost, charged)}`;
  return (
    <small>
      <a
        href={hrefOf('requests', undefined, { model: id })}
      >{`${money(charged)} in ${days} days${margin}`}</a>
    </small>
  );
}

function TargetCells({
  target,
  model,
  setWeight,
}: {
  readonly target: ModelTarget;
  readonly model: ModelPrices;
  readonly setWeight: SetWeight | undefined;
}): JSX.Element {
  const { provider, pricing, cost, unpriced } = target;
  return (
    <>
      <td>
        <a href={hrefOf('requests', undefined, { model: model.id, provider })}>{provider}</a>
        <small>
          {target.model}
          {model.strategy === 'weighted' && `, weight ${weightText(target)}`}
        </small>
        {model.strategy === 'weighted' && setWeight && (
          <WeightButton target={target} model={model} setWeight={setWeight} />
        )}
      </td>
      {(['input', 'output'] as const).map((name) => (
        <NumberCell key={name}>
          {perMillion(pricing[name])}
          {cost && <small class="wide">{`costs ${perMillion(cost[name])}`}</small>}
        </NumberCell>
      ))}
      <NumberCell class="wide">
        {target.reports_cost ? (
          'as reported'
        ) : cost ? (
          <>
            {marginOf(pricing['input'], cost['input'])}
            <small>{`${marginOf(pricing['output'], cost['output'])} out`}</small>
          </>
        ) : (
          '–'
        )}
      </NumberCell>
      <td class="wide wrap">
        {unpriced.length === 0 ? (
          '–'
        ) : (
          <details>
            <summary>{unpriced.length}</summary>
            {unpriced.join(', ')}
          </details>
        )}
      </td>
    </>
  );
}

function weightText({ weight, weight_by_hand: byHand }: ModelTarget): string {
  if (!byHand) return String(weight);
  return `${weight}${byHand.by === undefined ? ' by hand' : ` by ${byHand.by}`}, else ${byHand.configured}`;
}

function WeightButton({
  target,
  model,
  setWeight,
}: {
  readonly target: ModelTarget;
  readonly model: ModelPrices;
  readonly setWeight: SetWeight;
}): JSX.Element {
  const [isOpen, setOpen] = useState(false);
  const what = `${model.id} at ${target.provider}/${target.model}`;
  return (
    <>
      <button type="button" class="plain" aria-label={`Set weight of ${what}`} onClick={() => setOpen(true)}>
        Set weight
      </button>
      {isOpen && (
        <FormDialog
          title={`Weight of ${what}`}
          text={`Its share of the requests. The options say ${target.weight_by_hand?.configured ?? target.weight}, which takes it back.`}
          fields={[
            {
              name: 'weight',
              label: 'Weight',
              hint: 'With 0 it is asked only after all others have failed.',
              value: String(target.weight),
              isRequired: true,
            },
          ]}
          submit="Set weight"
          close={() => setOpen(false)}
          send={async ({ weight = '' }, key) => {
            // Blanks are nothing, which as a number is 0.
            if (weight === '') throw new ApiError(0, 'Weight must be a number.');
            await setWeight(model, target, Number(weight), key);
          }}
        />
      )}
    </>
  );
}

type Price = ModelTarget['pricing'][string] | undefined;

/** USD per token as USD per million tokens. */
export function perMillion(price: Price): string {
  if (typeof price !== 'string') return '–';
  const dollars = Number((Number(price) * 1e6).toPrecision(12));
  return `$${dollars.toLocaleString('en-US', { minimumFractionDigits: 2, maximumFractionDigits: 6 })}`;
}

function marginOf(price: Price, cost: Price): string {
  if (typeof price !== 'string' || typeof cost !== 'string') return '–';
  return percent(Number(price) - Number(cost), Number(price));
}
