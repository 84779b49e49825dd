import type { GatewayCommand } from './command.ts';
import { factsText } from './keys.ts';

export const statusCommand: GatewayCommand = {
  name: 'status',
  summary: 'Show whether the store of a running gateway is available, and what waits for it',
  asksGateway: true,
  positionals: '',
  options: {},
  examples: ['status', 'status --url https://api.example.com/admin --json'],
  async run({ gateway, print }) {
    const status = await gateway.getStatus();
    const { store, outbox, request_log: log } = status;
    print(
      factsText([
        ['started', status.started_at],
        ['running', status.running],
        ['store', store.name],
        ['store state', store.state],
        ['store answer', `${store.answer_ms} ms`],
        ['store error', store.error],
        ['charges wait', status.waiting_charges],
        ['outbox', outbox?.folder],
        ['outbox error', outbox?.error],
        ['log written', log.written],
        ['log waiting', log.waiting],
        ['log lost', log.lost],
        ['log left out', log.refusals_left_out],
      ]),
      status,
    );
    return store.state === 'available' && outbox?.error === undefined;
  },
};

export const healthCommand: GatewayCommand = {
  name: 'health',
  summary: 'Show the targets that a running gateway has sent requests to',
  asksGateway: true,
  positionals: '',
  options: {},
  printsRows: true,
  examples: ['health', 'health --csv'],
  async run({ gateway, list }) {
    const { data } = await gateway.listTargets();
    await list({
      columns: ['provider', 'model', 'state', 'failures_in_a_row', 'retry_at', 'first_byte_ms', 'running'],
      rows: data,
      none: 'no targets were used',
    });
    return true;
  },
};

export const whoamiCommand: GatewayCommand = {
  name: 'whoami',
  summary: 'Show which operator the token is, and what it may do',
  asksGateway: true,
  positionals: '',
  options: {},
  examples: ['whoami', 'whoami --env-file .env'],
  async run({ gateway, print }) {
    const { name, may } = await gateway.getMe();
    print(`${name}: may ${may.join(', ') || 'nothing'}`, { name, may });
    return true;
  },
};
