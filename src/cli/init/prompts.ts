import { createInterface } from 'node:readline/promises';

import { collect, type ProviderVariables, storeMistake, wantedVariables } from './check-answers.ts';
import { type AppKind, APP_KINDS } from './mount-snippets.ts';
import { KNOWN_PROVIDERS, type KnownProvider } from './known-providers.ts';

export interface PromptAnswers {
  readonly app: AppKind;
  readonly providers: readonly string[];
  readonly variables: ProviderVariables;
  readonly store: string;
}

export interface PromptOptions {
  readonly input: NodeJS.ReadableStream;
  readonly output: NodeJS.WritableStream;
  readonly folder: string;
  readonly suggested: { readonly app: AppKind; readonly providers: readonly KnownProvider[] };
  /** Says that a value is none of the accepted ones. */
  readonly notOneOf: (what: string, choices: readonly string[], value: string) => string;
}

/** Asks the questions on a terminal; an empty answer takes the default in brackets, a wrong one is explained. */
export async function promptTerminal(options: PromptOptions): Promise<PromptAnswers> {
  const { input, output, folder, suggested, notOneOf } = options;
  const terminal = createInterface({ input, output });
  // At the end of input, the promise of a question would never settle.
  const { promise: ended, reject } = Promise.withResolvers<never>();
  ended.catch(() => {});
  terminal.once('close', () => {
    reject(new Error('input ended; nothing was written'));
  });
  /** Asks until there is no mistake in the answer. */
  const ask = async (
    question: string,
    usual: string,
    mistake: (answer: string) => Promise<string | undefined> | string | undefined,
  ): Promise<string> => {
    for (;;) {
      const line = await Promise.race([terminal.question(`${question} [${usual}] `), ended]);
      const answer = line.trim() === '' ? usual : line.trim();
      const found = await mistake(answer);
      if (found === undefined) return answer;
      output.write(`  ${found}\n`);
    }
  };
  try {
    const app = await ask(`Which kind of app? ${APP_KINDS.join(', ')}`, suggested.app, (answer) =>
      isAppKind(answer) ? undefined : notOneOf('The kind of app', APP_KINDS, answer),
    );
    const names = KNOWN_PROVIDERS.map(({ name }) => name);
    const list = await ask(
      `Which providers? ${names.join(', ')}`,
      suggested.providers.map(({ name }) => name).join(','),
      (answer) => {
        const unknown = namesIn(answer).find((name) => !names.includes(name));
        return unknown === undefined ? undefined : notOneOf('A provider', names, unknown);
      },
    );
    const providers = namesIn(list);
    const values = [];
    for (const wanted of wantedVariables(providers)) {
      const value = await ask(
        `${wanted.provider}: which ${wanted.variable}?`,
        wanted.example,
        () => undefined,
      );
      values.push({ ...wanted, value });
    }
    const store = await ask(
      'Which store for credits and keys? sqlite:FILE or redis://HOST',
      'sqlite:./credits.db',
      (answer) => storeMistake(answer, folder),
    );
    return {
      app: isAppKind(app) ? app : suggested.app,
      providers,
      variables: collect(values),
      store,
    };
  } finally {
    terminal.close();
  }
}

function isAppKind(answer: string): answer is AppKind {
  return APP_KINDS.some((each) => each === answer);
}

function namesIn(answer: string): string[] {
  return answer.split(/[\s,]+/).filter((name) => name !== '');
}
