import { optionsOf } from './arguments.ts';
import type { Command, CommandOption } from './command.ts';
import { NAME } from './help.ts';

export const SHELLS = ['bash', 'zsh', 'fish'] as const;

/** The names that are completed: the program's, and the alias that the documentation suggests. */
const COMPLETED = [NAME, 'ccr'];

/** What can follow the words of a command line. */
interface Completions {
  /** The first words of all commands, with a summary. */
  readonly first: readonly (readonly [word: string, summary: string])[];
  /** First word → the second words of its commands. */
  readonly second: ReadonlyMap<string, readonly (readonly [word: string, summary: string])[]>;
  readonly commands: readonly Command[];
}

/** A script for a shell, which completes commands, options and their values. */
export function completionScript(shell: (typeof SHELLS)[number], commands: readonly Command[]): string {
  const families = commands.map(({ name }) => name.split(' ')).filter(({ length }) => length === 2);
  const second = new Map(
    families.map(([family = '']) => [
      family,
      commands
        .filter(({ name }) => name.startsWith(`${family} `))
        .map(({ name, summary }) => [name.slice(family.length + 1), summary] as const),
    ]),
  );
  const first = new Map(
    commands.map(({ name, summary }) => {
      const [word = ''] = name.split(' ');
      const list = second.get(word)?.map(([each]) => each);
      return [word, list ? `Commands: ${list.join(', ')}` : summary];
    }),
  );
  const completions = { first: [...first], second, commands };
  return shell === 'fish' ? fishScript(completions) : posixScript(shell, completions);
}

/** The syntax in which bash and zsh differ. */
const SYNTAX = {
  bash: {
    words: 'COMP_WORDS',
    base: 0,
    last: 'COMP_CWORD',
    offer: `COMPREPLY=($(compgen -W "$offered" -- "\${COMP_WORDS[COMP_CWORD]}"))`,
    files: `COMPREPLY=($(compgen -f -- "\${COMP_WORDS[COMP_CWORD]}"))`,
    register: `complete -F _chat_completions_router ${COMPLETED.join(' ')}`,
  },
  zsh: {
    words: 'words',
    base: 1,
    last: 'CURRENT',
    offer: `compadd -- \${=offered}`,
    files: '_files',
    register: `compdef _chat_completions_router ${COMPLETED.join(' ')}`,
  },
};

function posixScript(shell: keyof typeof SYNTAX, { first, second, commands }: Completions): string {
  const { words, base, last, offer, files, register } = SYNTAX[shell];
  const word = (n: number): string => `"\${${words}[${n + base}]}"`;
  const isAt = (n: number): string => `((${last} == ${n + base}))`;
  const families = [...second.keys()].join('|');
  return [
    `# ${shell} completion of ${NAME}`,
    '_chat_completions_router() {',
    `  local command=${word(1)} previous="\${${words}[${last} - 1]}" offered=`,
    `  case "$command" in ${families}) command="$command "${word(2)} ;; esac`,
    `  if ${isAt(1)}; then offered='${first.map(([each]) => each).join(' ')} help'`,
    ...[...second].map(
      ([family, list]) =>
        `  elif ${isAt(2)} && [[ ${word(1)} == ${family} ]]; then offered='${list.map(([each]) => each).join(' ')}'`,
    ),
    '  else',
    '    case "$command:$previous" in',
    ...valueCases(commands, files),
    '    *)',
    '      case "$command" in',
    ...commands.map((command) => `      '${command.name}') offered='${wordsOf(command).join(' ')}' ;;`),
    '      esac ;;',
    '    esac',
    '  fi',
    `  ${offer}`,
    '}',
    register,
  ].join('\n');
}

/** Cases for the options that take a value. */
function valueCases(commands: readonly Command[], files: string): string[] {
  const options = new Map(commands.flatMap((command) => valueOptions(command)));
  const patterns = (wanted: (option: CommandOption) => boolean): string =>
    [...options].flatMap(([name, option]) => (wanted(option) ? `*:--${name}` : [])).join('|');
  const listed = [...options].flatMap(([name, { choices }]) =>
    choices ? `    *:--${name}) offered='${choices.join(' ')}' ;;` : [],
  );
  const isFile = ({ value }: CommandOption): boolean => value === 'FILE';
  return [
    ...listed,
    `    ${patterns(isFile)}) ${files}; return ;;`,
    `    ${patterns((option) => !isFile(option) && !option.choices)}) return ;;`,
  ];
}

function fishScript({ first, second, commands }: Completions): string {
  const lines = first.map(([word, summary]) => `-n __fish_use_subcommand -a ${word} -d ${quoted(summary)}`);
  for (const [family, list] of second) {
    const isOpen = `__fish_seen_subcommand_from ${family}; and not __fish_seen_subcommand_from ${list.map(([each]) => each).join(' ')}`;
    lines.push(...list.map(([word, summary]) => `-n ${quoted(isOpen)} -a ${word} -d ${quoted(summary)}`));
  }
  for (const command of commands) {
    const isCommand = quoted(
      command.name
        .split(' ')
        .map((word) => `__fish_seen_subcommand_from ${word}`)
        .join('; and '),
    );
    for (const choices of Object.values(command.choices ?? {})) {
      lines.push(`-n ${isCommand} -a ${quoted(choices.join(' '))}`);
    }
    for (const [name, { value, help, choices }] of Object.entries(optionsOf(command))) {
      const values = choices ? ` -x -a ${quoted(choices.join(' '))}` : value === 'FILE' ? ' -r -F' : ' -x';
      lines.push(`-n ${isCommand} -l ${name}${value === undefined ? '' : values} -d ${quoted(help)}`);
    }
  }
  return [
    `# fish completion of ${NAME}`,
    ...COMPLETED.flatMap((name) => [
      `complete -c ${name} -f`,
      ...lines.map((line) => `complete -c ${name} ${line}`),
    ]),
  ].join('\n');
}

/** The words that can follow a command anywhere. */
function wordsOf(command: Command): string[] {
  return [
    ...Object.values(command.choices ?? {}).flat(),
    ...Object.keys(optionsOf(command)).map((name) => `--${name}`),
  ];
}

function valueOptions(command: Command): (readonly [string, CommandOption])[] {
  return Object.entries(optionsOf(command)).filter(([, { value }]) => value !== undefined);
}

/** A fish string in single quotes. */
function quoted(text: string): string {
  return `'${text.replaceAll(/[\\']/g, String.raw`\$&`)}'`;
}
