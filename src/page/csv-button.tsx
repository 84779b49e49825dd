import type { JSX } from 'preact';

import { asApiError } from './api.ts';
import { downloadCsv } from './download.ts';

export interface CsvButtonProps {
  readonly id: string;
  /** Of the file. */
  readonly name: string;
  readonly class: 'outline' | 'plain';
  readonly isDisabled: boolean;
  readonly read: () => Promise<string>;
  /** Gets the error's message; undefined while another download is tried. */
  readonly setFailure: (message: string | undefined) => void;
}

export function CsvButton(props: CsvButtonProps): JSX.Element {
  const { id, name, class: look, isDisabled, read, setFailure } = props;
  async function download(): Promise<void> {
    setFailure(undefined);
    try {
      downloadCsv(await read(), name);
    } catch (thrown) {
      setFailure(asApiError(thrown).message);
    }
  }
  return (
    <button type="button" id={id} class={look} disabled={isDisabled} onClick={() => void download()}>
      Download CSV
    </button>
  );
}
