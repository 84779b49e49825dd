/**
 * Makes the pictures of the README: `npm run pictures`. It needs a Chromium.
 *
 * `docs/demo.svg` is what the demo and curl really print; `docs/usage-page.png` is the console's overview over a ledger of 30 days,
 * `docs/console-*.png` are its other views, `docs/account-*.png` those of the customers' page.
 */
import { type ChildProcess, spawn } from 'node:child_process';
import { once } from 'node:events';
import { writeFileSync } from 'node:fs';
import { createInterface } from 'node:readline';

import { accountViews } from './account-page.ts';
import { consoleViews } from './console.ts';
import { usagePage } from './usage-page.ts';

const PORT = 8787;
const WIDTH = 100;
const LINE_PX = 19;
const CHAR_PX = 8.4;
const MARGIN_PX = 20;
const BAR_PX = 34;

/** A line of the terminal, and when it appears. */
interface Line {
  readonly atMs: number;
  readonly text: string;
  readonly kind: 'command' | 'output';
}

const [demo, banner] = await startDemo();
const lines = await session(banner);
const ended = once(demo, 'exit');
demo.kill('SIGTERM');
await ended;
writeFileSync('docs/demo.svg', drawTerminal(lines));
writeFileSync('docs/usage-page.png', await usagePage());
for (const [name, picture] of await consoleViews()) writeFileSync(`docs/console-${name}.png`, picture);
for (const [name, picture] of await accountViews()) writeFileSync(`docs/account-${name}.png`, picture);

/** @returns the demo, and what it printed up to its models */
async function startDemo(): Promise<[ChildProcess, string[]]> {
  const child = spawn(process.execPath, ['dist/cli.js', 'demo', '--port', String(PORT)], {
    env: { PATH: process.env['PATH'] },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const printed: string[] = [];
  for await (const line of createInterface({ input: child.stdout })) {
    if (line.includes('Paste these')) break;
    printed.push(line);
  }
  child.stdout.resume();
  return [child, printed];
}

/** What a newcomer types, and what comes back. */
async function session(printed: readonly string[]): Promise<Line[]> {
  const key = /sk-ccr-\w+/.exec(printed.join('\n'))?.[0] ?? '';
  const authorization = `authorization: Bearer ${key}`;
  const shown: Line[] = [{ atMs: 400, text: 'npx chat-completions-router demo', kind: 'command' }];
  let atMs = 1400;
  const add = (text: string, kind: Line['kind'] = 'output'): void => {
    shown.push({ atMs, text, kind });
  };
  for (const line of printed) add(line);
  atMs += 1600;
  add(
    `curl -N localhost:${PORT}/v1/chat/completions -H "authorization: Bearer $KEY" --json @story.json`,
    'command',
  );
  const body = { model: 'demo/parrot', messages: [{ role: 'user', content: 'Say hello' }], stream: true };
  const answer = await fetch(`http://127.0.0.1:${PORT}/v1/chat/completions`, {
    method: 'POST',
    headers: { authorization: `Bearer ${key}`, 'content-type': 'application/json' },
    body: JSON.stringify(body),
  });
  atMs += 700;
  const events = (await answer.text()).split('\n\n').filter((event) => event !== '');
  for (const event of [...events.slice(0, 5), '…', ...events.slice(-2)]) {
    // Of a line that is too long, the part that differs.
    add(event.replace(/"id":.*"choices":/, '… "choices":'));
    atMs += 160;
  }
  atMs += 900;
  add('');
  add(`curl localhost:${PORT}/v1/credits -H "authorization: Bearer $KEY"`, 'command');
  const credits = await fetch(`http://127.0.0.1:${PORT}/v1/credits`, {
    headers: { authorization: authorization.slice('authorization: '.length) },
  });
  atMs += 500;
  add(await credits.text());
  return shown;
}

/** A terminal in which one line after the other appears, once; its end stays. */
function drawTerminal(shown: readonly Line[]): string {
  const height = BAR_PX + MARGIN_PX + shown.length * LINE_PX + MARGIN_PX / 2;
  const width = WIDTH * CHAR_PX + 2 * MARGIN_PX;
  const rows = shown.map(({ atMs, text, kind }, i) => {
    const y = BAR_PX + MARGIN_PX + i * LINE_PX;
    const prompt = kind === 'command' ? '<tspan class="prompt">$ </tspan>' : '';
    const fitting = text.length > WIDTH - 2 ? `${text.slice(0, WIDTH - 3)}…` : text;
    return `<text class="line ${kind}" x="${MARGIN_PX}" y="${y}" style="animation-delay:${atMs}ms">${prompt}${escape(fitting)}</text>`;
  });
  return `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 ${width} ${height}" width="${width}" height="${height}" role="img" aria-label="A terminal: the demo starts, curl streams an answer, and the balance falls by its price">
<style>
.line { font: 13.5px ui-monospace, SFMono-Regular, Menlo, Consolas, "DejaVu Sans Mono", monospace; fill: #c9d1d9; white-space: pre; opacity: 0; animation: appear 1ms forwards; }
.command { fill: #ffffff; }
.prompt { fill: #3fb950; }
@keyframes appear { to { opacity: 1; } }
@media (prefers-reduced-motion: reduce) { .line { animation-delay: 0ms !important; } }
</style>
<rect width="100%" height="100%" rx="10" fill="#0d1117"/>
<circle cx="20" cy="17" r="5.5" fill="#ff5f57"/><circle cx="38" cy="17" r="5.5" fill="#febc2e"/><circle cx="56" cy="17" r="5.5" fill="#28c840"/>
${rows.join('\n')}
</svg>
`;
}

function escape(text: string): string {
  return text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;');
}
