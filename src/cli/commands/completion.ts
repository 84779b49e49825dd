import { type Command, type PlainCommand } from './command.ts';
import { completionScript, SHELLS } from './completion-script.ts';

/** @param commands - all commands, this one included */
export function completionCommand(commands: () => readonly Command[]): PlainCommand {
  return {
    name: 'completion',
    summary: 'Print a script that completes commands and options in a shell',
    positionals: 'SHELL',
    choices: { SHELL: SHELLS },
    options: {},
    examples: ['completion bash >> ~/.bashrc', 'completion fish > ~/.config/fish/completions/ccr.fish'],
    run({ positionals: [name], print }) {
      const shell = SHELLS.find((each) => each === name);
      if (shell) print(completionScript(shell, commands()), {});
      return Promise.resolve(true);
    },
  };
}
