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
  /** The key that has signed in with its secret. */
  readonly own?: string | undefined;
  readonly close: () => void;
  readonly reload: () => Promise<void>;
}

/** The form of a change, and after it the new secret. */
export function KeyDialogs({ api, chosen, own, close, reload }: KeyDialogsProps): JSX.Element {
  const [secret, setSecret] = useState<string>();
  return (
    <>
      {chosen && (
        <FormDialog
          {...keyForm(chosen)}
          close={close}
          send={async (values, idempotencyKey) => {
            const made = await changeKey(api, chosen, values, idempotencyKey);
            // With the old secret the session would end, and the new one would be gone with it.
            if (made !== undefined && chosen.action === 'rotate' && chosen.key?.id === own)
              api.setToken(made);
            setSecret(made);
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
