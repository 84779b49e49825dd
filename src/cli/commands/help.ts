import { styleText } from 'node:util';

import { optionsOf } from './arguments.ts';
import type { Command, CommandOption } from './command.ts';

/** Name of the program. */
export const NAME = 'chat-completions-router';

/** The help of the program: all commands, one per line. */
export function overview(commands: readonly Command[]): string {
  const width = widest(commands);
  const list = (kind: (command: Command) => boolean): string[] => listed(commands.filter(kind), width);
  return [
    `Usage: ${NAME} COMMAND …`,
    '',
    ...list(({ store, asksGateway }) => !store && !asksGateway),
    '',
    bold('Commands on a running gateway, through its admin API:'),
    '',
    ...list(({ asksGateway }) => asksGateway === true),
    '',
    bold('Commands on a store, also while an app or server uses it:'),
    '',
    ...list(({ store }) => store !== undefined),
    '',
    STORE_NOTE,
    '',
    `${bold('COMMAND --help')} shows the options of a command; ${bold('--version')} shows the version.`,
    'Exit codes: 0 success, 1 failure, 2 usage error.',
  ].join('\n');
}

/** The help of the commands that share their first word. */
export function familyHelp(word: string, commands: readonly Command[]): string {
  return [
    `Usage: ${NAME} ${word} COMMAND …`,
    '',
    ...listed(commands, widest(commands)),
    '',
    `${bold('COMMAND --help')} shows the options of a command.`,
  ].join('\n');
}

export function help(command: Command): string {
  const options = Object.entries(optionsOf(command)).map(([name, option]) => [
    flag(name, option),
    option.help,
  ]);
  const width = Math.max(...options.map(([left = '']) => left.length));
  const { examples } = command;
  return [
    `Usage: ${NAME} ${synopsis(command)}`,
    '',
    `${command.summary}.`,
    '',
    ...options.map(([left = '', meaning]) => `  ${bold(left.padEnd(width))}  ${meaning}`),
    '',
    bold(examples.length === 1 ? 'Example:' : 'Examples:'),
    '',
    ...examples.map((example) => `  npx ${NAME} ${example}`),
    ...(command.store ? ['', STORE_NOTE] : []),
  ].join('\n');
}

/** Name and arguments of a command, those that can be left out in brackets: `credits balance [ACCOUNT]`. */
export function synopsis({ name, positionals, options }: Command): string {
  const flags = Object.entries(options).map(([each, option]) =>
    option.isRequired ? flag(each, option) : `[${flag(each, option)}]`,
  );
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

const STORE_NOTE = `The store is taken from --store, else --config, else CREDITS_STORE in the environment, else the config
in this folder (chat-completions-router.config.ts, .json etc.).`;

/** Bold on a terminal; obeys NO_COLOR and FORCE_COLOR. */
function bold(text: string): string {
  return styleText('bold', text);
}
