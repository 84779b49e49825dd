import { styleText } from 'node:util';

import { optionsOf } from './arguments.ts';
import type { Command, CommandOption } from './command.ts';

/** What is typed before a command. */
export const NAME = 'chat-completions-router';

/** All commands, a line each. */
export function overview(commands: readonly Command[]): string {
  const width = widest(commands);
  const list = (kind: (command: Command) => boolean): string[] => listed(commands.filter(kind), width);
  return [
    `Usage: ${NAME} COMMAND …`,
    '',
    ...list(({ store }) => !store),
    '',
    'On the store of an app or server, while it runs:',
    '',
    ...list(({ store }) => store !== undefined),
    '',
    STORE_NOTE,
    '',
    `${bold('--help')} after a command says how it is called; ${bold('--version')} says which this is.`,
    'Ends with 0 if all is well, 1 if something is wrong or failed, 2 if it was called wrongly.',
  ].join('\n');
}

/** The commands that begin with one word. */
export function familyHelp(word: string, commands: readonly Command[]): string {
  return [
    `Usage: ${NAME} ${word} COMMAND …`,
    '',
    ...listed(commands, widest(commands)),
    '',
    `${bold('--help')} after a command says how it is called.`,
  ].join('\n');
}

export function help(command: Command): string {
  const options = Object.entries(optionsOf(command)).map(([name, option]) => [
    flag(name, option),
    option.help,
  ]);
  const width = Math.max(...options.map(([left = '']) => left.length));
  return [
    `Usage: ${NAME} ${synopsis(command)}`,
    '',
    `${command.summary}.`,
    '',
    ...options.map(([left = '', meaning]) => `  ${bold(left.padEnd(width))}  ${meaning}`),
    ...(command.store ? ['', STORE_NOTE] : []),
  ].join('\n');
}

export function synopsis({ name, positionals, options }: Command): string {
  const flags = Object.entries(options).map(([each, option]) => flag(each, option));
  return [name, positionals, ...flags].filter((part) => part !== '').join(' ');
}

function listed(commands: readonly Command[], width: number): string[] {
  return commands.map(({ name, summary }) => `  ${bold(name.padEnd(width))}  ${summary}`);
}

function widest(commands: readonly Command[]): number {
  return Math.max(...commands.map(({ name }) => name.length));
}

function flag(name: string, { value }: CommandOption): string {
  return value === undefined ? `--${name}` : `--${name} ${value}`;
}

const STORE_NOTE = `The store is that of --store, else of --config, else of CREDITS_STORE in the environment, else of the
config in this folder (chat-completions-router.config.ts, .json and so on).`;

/** Only where somebody sees it; NO_COLOR and FORCE_COLOR are obeyed. */
function bold(text: string): string {
  return styleText('bold', text);
}
