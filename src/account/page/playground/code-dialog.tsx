import type { JSX } from 'preact';
import { useState } from 'preact/hooks';

import { CopyButton } from '../../../page/copy-button.tsx';
import { Dialog } from '../../../page/dialog.tsx';
import { type Segment, Segments } from '../../../page/segments.tsx';
import type { ChatRequest } from './chat-request.ts';
import { type Language, snippetOf } from './snippets.ts';

const LANGUAGES: readonly Segment<Language>[] = [
  { value: 'curl', content: 'curl' },
  { value: 'python', content: 'Python' },
  { value: 'typescript', content: 'TypeScript' },
];

interface CodeDialogProps {
  readonly baseURL: string;
  readonly request: ChatRequest;
  readonly close: () => void;
}

/** The request of the playground as code. */
export function CodeDialog({ baseURL, request, close }: CodeDialogProps): JSX.Element {
  const [language, setLanguage] = useState<Language>('curl');
  const code = snippetOf(language, baseURL, request);
  return (
    <Dialog title="The same request as code" close={close}>
      <div class="title">
        <Segments
          id="language"
          label="Language"
          segments={LANGUAGES}
          value={language}
          choose={setLanguage}
          small
        />
        <CopyButton key={language} text={code} />
      </div>
      {/* oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it is scrolled by keyboard */}
      <pre id="code" class="snippet" tabIndex={0} aria-label="Code">
        {code}
      </pre>
      <p class="faint">
        It reads the API key from the environment variable API_KEY. Keep keys out of code and browsers.
      </p>
      <div class="controls end">
        <button type="button" class="primary small" onClick={close}>
          Done
        </button>
      </div>
    </Dialog>
  );
}
