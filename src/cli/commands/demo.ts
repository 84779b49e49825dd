import { type PlainCommand, portNumber } from './command.ts';

const DEFAULT_PORT = 8787;

export const demoCommand: PlainCommand = {
  name: 'demo',
  summary: 'Try it: a server with a model that needs no key, an account with $5.00, and commands to paste',
  positionals: '',
  options: {
    port: { value: 'PORT', help: 'default: PORT in the environment, else 8787; 0 takes any free port' },
  },
  examples: ['demo', 'demo --port 8788'],
  async run({ options: { port } }) {
    // Loaded late: the other commands don't need it.
    const { demo } = await import('../demo/demo.ts');
    const { PORT = '' } = process.env;
    if (port !== undefined) return demo({ port: portNumber(port, '--port') });
    return demo({ port: PORT === '' ? DEFAULT_PORT : portNumber(PORT, 'PORT in the environment') });
  },
};
