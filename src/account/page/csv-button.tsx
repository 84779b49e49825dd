import type { JSX } from 'preact';

import { asApiError } from '../../page/api.ts';
import { downloadCsv } from '../../page/download.ts';

export interface CsvButtonProps {
  readonly id: string;
  /** Of the file. */
  readonly name: string;
  readonly isDisabled: boolean;
  readonly read: () => Promise<string>;
  /** Gets the error's message, or undefined once it went well. */
  readonly setFailure: (message: string | undefined) => void;
}

export function CsvButton({ id, name, isDisabled, read, setFailure }: CsvButtonProps): JSX.Element {
  async function download(): Promise<void> {
    try {
      downloadCsv(await read(), name);
      setFailure(undefined);
    } catch (thrown) {
      setFailure(asApiError(thrown).message);
    }
  }
  return (
    <button type="button" id={id} class="outline" disabled={isDisabled} onClick={() => void download()}>
      Download CSV
    </button>
  );
}
