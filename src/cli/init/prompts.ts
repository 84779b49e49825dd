import { createInterface } from 'node:readline/promises';

import { type App, APPS } from './mount-snippets.ts';
import { KNOWN_PROVIDERS, type KnownProvider } from './known-providers.ts';

export interface PromptAnswers {
  readonly app: App;
  readonly providers: readonly string[];
  readonly store: string;
}

/** Asks the questions on a terminal; an empty answer takes the default in brackets. */
export async function promptTerminal(
  input: NodeJS.ReadableStream,
  output: NodeJS.WritableStream,
  suggested: { readonly app: App; readonly providers: readonly KnownProvider[] },
): Promise<PromptAnswers> {
  const terminal = createInterface({ input, output });
  // At the end of input, the promise of a question would never settle.
  const { promise: ended, reject } = Promise.withResolvers<never>();
  ended.catch(() => {});
  terminal.once('close', () => {
    reject(new Error('input ended; nothing was written'));
  });
  const ask = async (question: string, usual: string): Promise<string> => {
    const answer = await Promise.race([terminal.question(`${question} [${usual}] `), ended]);
    return answer.trim() === '' ? usual : answer.trim();
  };
  try {
    const names = KNOWN_PROVIDERS.map(({ name }) => name);
    let app: App | undefined;
    while (!app) {
      const answer = await ask(`Which kind of app? ${APPS.join(', ')}`, suggested.app);
      app = APPS.find((each) => each === answer);
    }
    let providers: readonly string[] = [];
    while (providers.length === 0) {
      const usual = suggested.providers.map(({ name }) => name).join(',');
      const answer = (await ask(`Which providers? ${names.join(', ')}`, usual)).split(/[\s,]+/);
      providers = answer.every((name) => names.includes(name)) ? answer : [];
    }
    const store = await ask(
      'Which store for credits and keys? sqlite:FILE or redis://HOST',
      'sqlite:./credits.db',
    );
    return { app, providers, store };
  } finally {
    terminal.close();
  }
}
