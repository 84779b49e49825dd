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
        : [time.slice(11, 19), colored(level, event, out), ...pairs(fields)].join(' ');
    out.write(`${line}\n`);
  };
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
