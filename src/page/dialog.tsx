import type { ComponentChildren, JSX } from 'preact';
import { useLayoutEffect, useRef, useState } from 'preact/hooks';

import { asApiError } from './api.ts';
import { formValues } from './form-values.ts';

export interface DialogProps {
  readonly title: string;
  readonly close: () => void;
  readonly children: ComponentChildren;
}

/** A modal dialog; Escape closes it, and the focus returns to where it was. */
export function Dialog({ title, close, children }: DialogProps): JSX.Element {
  const element = useRef<HTMLDialogElement>(null);
  // A layout effect, so that the next key that is pressed is typed in the dialog.
  useLayoutEffect(() => {
    const dialog = element.current;
    dialog?.showModal();
    // An element that is only taken out does not give back the focus.
    return () => dialog?.close();
  }, []);
  /** Now: `close` comes later, after the next key, which may open a dialog again. */
  function onCancel(event: Event): void {
    event.preventDefault();
    element.current?.close();
    close();
  }
  /** Closed without `cancel`, as by a second Escape; an element that is gone says it too. */
  function onClose(): void {
    if (element.current) close();
  }
  return (
    <dialog ref={element} class="card" aria-labelledby="dialog-title" onCancel={onCancel} onClose={onClose}>
      <h2 id="dialog-title">{title}</h2>
      {children}
    </dialog>
  );
}

/** A field of a form: its name, in the request's body too, and what is typed in it. */
export interface Field {
  readonly name: string;
  readonly label: string;
  readonly hint?: string;
  readonly isRequired?: boolean;
  readonly value?: string;
  readonly type?: 'text' | 'password';
  /** Instead of typing: one of these. */
  readonly choices?: readonly string[];
}

export interface FormDialogProps {
  readonly title: string;
  /** Said before the fields: what will happen. */
  readonly text?: string;
  readonly fields?: readonly Field[];
  readonly submit: string;
  /** It can't be undone. */
  readonly isDanger?: boolean;
  readonly close: () => void;
  /** Where the page goes once the change is made, unless the form was closed meanwhile. */
  readonly next?: (values: Readonly<Record<string, string>>) => string;
  /** Makes the change; a failure is shown, and the form stays. The key is the same for each try. */
  readonly send: (values: Readonly<Record<string, string>>, idempotencyKey: string) => Promise<void>;
}

/** A form that makes one change, once: each try of it has the same idempotency key. */
export function FormDialog(props: FormDialogProps): JSX.Element {
  const { title, text, fields = [], submit, isDanger = false, next, close, send } = props;
  const [key] = useState(() => crypto.randomUUID());
  const [failure, setFailure] = useState<string>();
  const [isSending, setSending] = useState(false);
  const isShown = useRef(true);
  useLayoutEffect(
    () => () => {
      isShown.current = false;
    },
    [],
  );

  async function onSubmit(event: SubmitEvent): Promise<void> {
    event.preventDefault();
    if (!(event.currentTarget instanceof HTMLFormElement)) return;
    const values = formValues(event.currentTarget);
    setSending(true);
    setFailure(undefined);
    try {
      await send(values, key);
      // It may have been cancelled meanwhile, and another one opened.
      if (!isShown.current) return;
      close();
      if (next) location.hash = next(values);
    } catch (thrown) {
      setFailure(asApiError(thrown).message);
      setSending(false);
    }
  }

  return (
    <Dialog title={title} close={close}>
      <form onSubmit={(event) => void onSubmit(event)}>
        {text !== undefined && <p>{text}</p>}
        {fields.map((field) => (
          <FormField key={field.name} field={field} />
        ))}
        <p class="notice bad" role="alert" hidden={failure === undefined}>
          {failure}
        </p>
        <div class="controls end">
          <button type="button" class="plain" onClick={close}>
            Cancel
          </button>
          <button type="submit" class={isDanger ? 'primary danger' : 'primary'} disabled={isSending}>
            {submit}
          </button>
        </div>
      </form>
    </Dialog>
  );
}

function FormField({ field }: { readonly field: Field }): JSX.Element {
  const { name, label, hint, isRequired = false, value = '', type = 'text', choices } = field;
  const id = `field-${name}`;
  const hintId = hint === undefined ? undefined : `${id}-hint`;
  return (
    <div class="form-field">
      <label htmlFor={id}>{label}</label>
      {choices ? (
        <select id={id} name={name} aria-describedby={hintId}>
          {choices.map((choice) => (
            <option key={choice} value={choice} selected={choice === value}>
              {choice}
            </option>
          ))}
        </select>
      ) : (
        <input
          id={id}
          name={name}
          type={type}
          required={isRequired}
          defaultValue={value}
          autocomplete="off"
          spellcheck={false}
          aria-describedby={hintId}
        />
      )}
      {hint !== undefined && <small id={hintId}>{hint}</small>}
    </div>
  );
}
