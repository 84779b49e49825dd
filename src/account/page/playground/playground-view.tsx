import type { JSX } from 'preact';
import { useEffect, useLayoutEffect, useReducer, useRef, useState } from 'preact/hooks';

import { useResource } from '../../../page/resource.ts';
import { ViewBody } from '../view-body.tsx';
import type { ViewProps } from '../view-props.ts';
import { CodeDialog } from './code-dialog.tsx';
import type { Conversation } from './conversation.ts';
import type { OwnModel } from './model-price.ts';
import { SettingsForm } from './settings-form.tsx';
import { TurnView } from './turn-view.tsx';

const REFRESH_MS = 60_000;
/** The transcript follows its end where that is at most this far away, in pixels. */
const NEAR_PX = 80;

/** A chat with one of the models, at the account's charge. */
export function PlaygroundView({ session, me, conversation }: ViewProps): JSX.Element {
  const { data, notice } = useResource<readonly OwnModel[]>(session, {
    subject: 'models',
    everyMs: REFRESH_MS,
    ask: async () => (await session.api.list<OwnModel>('models')).data,
  });
  useChanges(conversation);
  const [draft, setDraft] = useState('');
  const [isCodeShown, setCodeShown] = useState(false);
  const { settings, turns } = conversation;
  const model = settings.model || data?.[0]?.id;
  useEffect(() => {
    if (settings.model === '' && model !== undefined) conversation.change({ model });
  }, [conversation, settings.model, model]);
  return (
    <ViewBody
      title="Playground"
      about="Try a model. Answers are charged to your account like any request."
      notice={notice}
    >
      {data && (
        <div class="playground">
          <SettingsForm
            settings={settings}
            models={data}
            change={(changed) => conversation.change(changed)}
          />
          <section class="card chat" aria-label="Chat">
            <div class="chat-tools">
              <button type="button" id="show-code" class="plain" onClick={() => setCodeShown(true)}>
                Code
              </button>
              <button
                type="button"
                id="clear"
                class="plain"
                disabled={turns.length === 0}
                onClick={() => conversation.clear()}
              >
                Clear
              </button>
            </div>
            <Transcript conversation={conversation} retry={() => void conversation.retry(me)} />
            <Composer
              draft={draft}
              setDraft={setDraft}
              isRunning={conversation.isRunning}
              isReady={model !== undefined}
              ask={() => {
                setDraft('');
                void conversation.ask(me, draft.trim());
              }}
              stop={() => conversation.stop()}
            />
          </section>
          {isCodeShown && (
            <CodeDialog
              baseURL={session.api.urlOf(me.api)}
              request={conversation.requestOf(draft.trim())}
              close={() => setCodeShown(false)}
            />
          )}
        </div>
      )}
    </ViewBody>
  );
}

/** Renders again with each change. */
function useChanges(conversation: Conversation): void {
  const [, update] = useReducer((count: number) => count + 1, 0);
  useEffect(() => conversation.subscribe(() => update(undefined)), [conversation]);
}

interface TranscriptProps {
  readonly conversation: Conversation;
  readonly retry: () => void;
}

function Transcript({ conversation: { turns, isRunning }, retry }: TranscriptProps): JSX.Element {
  const element = useRef<HTMLDivElement>(null);
  const isAtEnd = useRef(true);
  useLayoutEffect(() => {
    if (element.current && isAtEnd.current) element.current.scrollTop = element.current.scrollHeight;
  });
  return (
    <div
      id="transcript"
      class="transcript"
      ref={element}
      role="log"
      aria-label="Conversation"
      aria-live="off"
      // oxlint-disable-next-line jsx-a11y/no-noninteractive-tabindex -- it is scrolled by keyboard
      tabIndex={0}
      onScroll={({ currentTarget: { scrollHeight, scrollTop, clientHeight } }) => {
        isAtEnd.current = scrollHeight - scrollTop - clientHeight < NEAR_PX;
      }}
    >
      {turns.length === 0 && <p class="nothing">Ask something to begin.</p>}
      {turns.map((turn, i) => (
        <TurnView
          key={turn.id}
          turn={turn}
          retry={i === turns.length - 1 && !isRunning ? retry : undefined}
        />
      ))}
    </div>
  );
}

interface ComposerProps {
  readonly draft: string;
  readonly setDraft: (text: string) => void;
  readonly isRunning: boolean;
  readonly isReady: boolean;
  readonly ask: () => void;
  readonly stop: () => void;
}

/** Enter asks, Shift and Enter is a new line. */
function Composer({ draft, setDraft, isRunning, isReady, ask, stop }: ComposerProps): JSX.Element {
  const mayAsk = isReady && !isRunning && draft.trim() !== '';
  return (
    <form
      class="composer"
      onSubmit={(event) => {
        event.preventDefault();
        if (mayAsk) ask();
      }}
    >
      <textarea
        id="message"
        aria-label="Message"
        placeholder="Message"
        rows={2}
        value={draft}
        onInput={(event) => setDraft(event.currentTarget.value)}
        onKeyDown={(event) => {
          if (event.key !== 'Enter' || event.shiftKey || event.isComposing) return;
          event.preventDefault();
          if (mayAsk) ask();
        }}
      />
      {isRunning ? (
        <button type="button" id="stop" class="outline" onClick={stop}>
          Stop
        </button>
      ) : (
        <button type="submit" id="send" class="primary small" disabled={!mayAsk}>
          Send
        </button>
      )}
    </form>
  );
}
