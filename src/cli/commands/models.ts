import type { ModelList, ModelTarget } from '../../client/admin-api.generated.ts';
import { shiftDecimal } from '../../metering/decimal.ts';
import type { Column } from '../terminal/listing.ts';
import { type GatewayCommand, usd } from './command.ts';

export const modelsCommand: GatewayCommand = {
  name: 'models',
  summary: 'Show the models of a running gateway with their targets, prices and costs',
  asksGateway: true,
  positionals: '',
  options: {},
  printsRows: true,
  examples: ['models', 'models --csv > prices.csv'],
  async run({ gateway, list, note, options }) {
    const { data } = await gateway.listModels();
    await list({ columns: COLUMNS, rows: data.flatMap(rowsOf), none: 'no models', objects: data });
    const isTable = options['json'] === undefined && options['csv'] === undefined;
    if (isTable && data.length > 0) note('prices and costs in USD per million tokens');
    return true;
  },
};

/** A target of a model. */
interface Row extends ModelTarget {
  readonly id: string;
}

function rowsOf({ id, targets }: ModelList['data'][number]): Row[] {
  return targets.map((target) => ({ id, ...target }));
}

const COLUMNS: readonly Column<Row>[] = [
  { name: 'id', head: 'MODEL', value: ({ id }) => id },
  { name: 'provider', value: ({ provider }) => provider },
  { name: 'upstream_model', value: ({ model }) => model },
  { name: 'weight', value: ({ weight }) => weight, isOnlyCsv: true },
  rate('pricing', 'prompt', 'INPUT'),
  rate('pricing', 'completion', 'OUTPUT'),
  rate('cost', 'prompt', 'INPUT COST'),
  rate('cost', 'completion', 'OUTPUT COST'),
  { name: 'reports_cost', value: ({ reports_cost: reports }) => reports, isOnlyCsv: true },
  { name: 'unpriced', value: ({ unpriced }) => unpriced },
];

/** A price of a token, of its first tier; in a table of a million of them. */
function rate(member: 'pricing' | 'cost', name: string, head: string): Column<Row> {
  const value = (row: Row): string | undefined => {
    const found = row[member]?.[name];
    return typeof found === 'object' ? found[0]?.cost : found;
  };
  return {
    name: `${member}_${name}`,
    head,
    value,
    shown: (row) => {
      const million = shiftDecimal(value(row) ?? '', 6, 9);
      return million === undefined ? '–' : usd(million);
    },
  };
}
