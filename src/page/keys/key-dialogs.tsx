import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import type { Api } from '../api.ts';
import { CopyButton } from '../copy-button.tsx';
import { Dialog, FormDialog } from '../dialog.tsx';
import { changeKey, type ChosenAction, keyForm } from './key-actions.ts';

export interface KeyDialogsProps {
  readonly api: Api;
  /** Undefined while there is no form. */
  readonly chosen: ChosenAction | undefined;
  readonly close: () => void;
  readonly reload: () => Promise<void>;
}

/** The form of a change, and after it the new secret. */
export function KeyDialogs({ api, chosen, close, reload }: KeyDialogsProps): JSX.Element {
  const [secret, setSecret] = useState<string>();
  return (
    <>
      {chosen && (
        <FormDialog
          {...keyForm(chosen)}
          close={close}
          send={async (values, idempotencyKey) => {
            setSecret(await changeKey(api, chosen, values, idempotencyKey));
            await reload();
          }}
        />
      )}
      {secret !== undefined && <Secret secret={secret} close={() => setSecret(undefined)} />}
    </>
  );
}

/** A new secret, once. */
function Secret({ secret, close }: { readonly secret: string; readonly close: () => void }): JSX.Element {
  return (
    <Dialog title="The secret of the key" close={close}>
      <p>It is shown this once. Copy it now.</p>
      <p>
        <code id="secret">{secret}</code>
      </p>
      <div class="controls end">
        <CopyButton text={secret} />
        <button type="button" class="primary" onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
