import { styleText } from 'node:util';

import { escapeControlCharacters } from '../terminal/escape-control-characters.ts';

export type Level = 'info' | 'warn' | 'error';

/** Writes a line with an event and its fields. */
export type Log = (level: Level, event: string, fields?: Readonly<Record<string, unknown>>) => void;

export type LogFormat = 'json' | 'text';

/** A line-based log: JSON, or `name=value` text. */
export function createLog(out: NodeJS.WritableStream, format: LogFormat, now: () => Date): Log {
  return (level, event, fields = {}) => {
    const time = now().toISOString();
    const line =
      format === 'json'
        ? JSON.stringify({ time, level, event, ...fields })
        : [
            time.slice(11, 19),
            ...(shortLine(event, fields, out) ?? [colored(level, event, out), ...pairs(fields)]),
          ].join(' ');
    out.write(`${line}\n`);
  };
}

/** The events of each request, as short as a person reads them; undefined for other events. */
function shortLine(
  event: string,
  fields: Readonly<Record<string, unknown>>,
  stream: NodeJS.WritableStream,
): string[] | undefined {
  const text = (name: string): string => {
    const value = fields[name];
    return typeof value === 'string' || typeof value === 'number'
      ? escapeControlCharacters(String(value))
      : '';
  };
  if (event === 'response') {
    const status = Number(fields['status']);
    const color = status >= 500 ? 'red' : status >= 400 ? 'yellow' : 'green';
    const words = [
      text('method'),
      text('path'),
      styleText(color, String(status), { stream }),
      `${Math.round(Number(fields['durationMs']))} ms`,
      ...['errorCode', 'account', 'model', 'requestId'].map(text),
    ];
    return words.filter((word) => word !== '');
  }
  if (event !== 'settled') return undefined;
  const tokens = `${text('promptTokens') || 0} + ${text('completionTokens') || 0} tokens`;
  return [
    styleText('bold', event, { stream }),
    `$${text('charged')}`,
    tokens,
    text('account'),
    text('model'),
    text('requestId'),
  ];
}

function colored(level: Level, event: string, stream: NodeJS.WritableStream): string {
  const color = ({ info: 'bold', warn: 'yellow', error: 'red' } as const)[level];
  return styleText(color, event, { stream });
}

function pairs(fields: Readonly<Record<string, unknown>>): string[] {
  return Object.entries(fields)
    .filter(([, value]) => value !== undefined)
    .map(([name, value]) => {
      const text = typeof value === 'string' ? value : (JSON.stringify(value) ?? String(value));
      return escapeControlCharacters(`${name}=${/^[^\s"=]+$/.test(text) ? text : JSON.stringify(text)}`);
    });
}
