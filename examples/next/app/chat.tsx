'use client';

import { useChat } from '@ai-sdk/react';
import {
  type FormEvent,
  type KeyboardEvent,
  type ReactNode,
  useEffect,
  useMemo,
  useRef,
  useState,
} from 'react';
import { balance, type ChatMessage, chatTransport } from './ask';

const SUGGESTIONS = ['Tell me a story about a ship', 'What does the sea say?', 'Good morning, Polly'];

interface ChatProps {
  readonly model: string;
  /** USD. */
  readonly balanceAtStart: string;
}

export function Chat({ model, balanceAtStart }: ChatProps): ReactNode {
  const transport = useMemo(() => chatTransport(model), [model]);
  const { messages, setMessages, sendMessage, status, stop, error } = useChat<ChatMessage>({
    transport,
    onFinish: async ({ message, isAbort }) => {
      if (!isAbort) return;
      // An answer that was stopped didn't come to say what it cost.
      const data = await balance();
      const stopped = { ...message, parts: [...message.parts, { type: 'data-balance' as const, data }] };
      setMessages((all) => all.map((other) => (other.id === message.id ? stopped : other)));
    },
  });
  const [draft, setDraft] = useState('');
  const end = useRef<HTMLDivElement>(null);
  const busy = status === 'submitted' || status === 'streaming';

  useEffect(() => {
    end.current?.scrollIntoView({ block: 'end' });
  }, [messages, status, error]);

  function ask(text: string): void {
    if (busy || text.trim() === '') return;
    void sendMessage({ text });
    setDraft('');
  }

  return (
    <div className="app">
      <Header
        model={model}
        balance={balancesOf(messages, balanceAtStart).at(-1) ?? balanceAtStart}
        start={balanceAtStart}
      />
      <main>
        {messages.length === 0 ? (
          <Welcome onPick={ask} />
        ) : (
          <Conversation
            messages={messages}
            balanceAtStart={balanceAtStart}
            waiting={status === 'submitted'}
          />
        )}
        {error && (
          <p className="error" role="alert">
            {error.message}
          </p>
        )}
        <div ref={end} className="end" />
      </main>
      <Composer draft={draft} setDraft={setDraft} busy={busy} onAsk={ask} onStop={() => void stop()} />
    </div>
  );
}

interface HeaderProps {
  readonly model: string;
  readonly balance: string;
  readonly start: string;
}

function Header({ model, balance, start }: HeaderProps): ReactNode {
  const left = Number(start) === 0 ? 0 : Number(balance) / Number(start);
  return (
    <header>
      <Parrot />
      <div className="title">
        <h1>Parrot</h1>
        <p>{model}</p>
      </div>
      <div className="balance" title="Prepaid credits that are left">
        <a href="/account">Credits</a>
        {/* A new balance is a new element, so that its animation starts again. */}
        <output key={balance} data-testid="balance">
          {dollars(Number(balance))}
        </output>
        <div className="meter">
          <div style={{ width: `${Math.max(0, Math.min(1, left)) * 100}%` }} />
        </div>
      </div>
    </header>
  );
}

function Welcome({ onPick }: { readonly onPick: (text: string) => void }): ReactNode {
  return (
    <section className="welcome">
      <Parrot />
      <h2>Say something. I’ll say it back.</h2>
      <p>Each answer is streamed through the router at /v1, and paid from your credits to the last token.</p>
      <div className="suggestions">
        {SUGGESTIONS.map((text) => (
          <button key={text} type="button" onClick={() => onPick(text)}>
            {text}
          </button>
        ))}
      </div>
    </section>
  );
}

interface ConversationProps {
  readonly messages: readonly ChatMessage[];
  readonly balanceAtStart: string;
  readonly waiting: boolean;
}

function Conversation({ messages, balanceAtStart, waiting }: ConversationProps): ReactNode {
  const balances = balancesOf(messages, balanceAtStart);
  return (
    <ol className="conversation" aria-live="polite">
      {messages.map((message, i) => {
        const paid = Number(balances[i - 1] ?? balanceAtStart) - Number(balances[i]);
        return (
          <li key={message.id} className={message.role}>
            <div className="bubble">{textOf(message)}</div>
            {paid > 0 && <p className="paid">paid {dollars(paid)}</p>}
          </li>
        );
      })}
      {waiting && (
        <li className="assistant">
          <div className="bubble dots" role="status" aria-label="The parrot thinks">
            <i />
            <i />
            <i />
          </div>
        </li>
      )}
    </ol>
  );
}

interface ComposerProps {
  readonly draft: string;
  readonly setDraft: (draft: string) => void;
  readonly busy: boolean;
  readonly onAsk: (text: string) => void;
  readonly onStop: () => void;
}

function Composer({ draft, setDraft, busy, onAsk, onStop }: ComposerProps): ReactNode {
  function submit(event: FormEvent): void {
    event.preventDefault();
    onAsk(draft);
  }

  function submitOnEnter(event: KeyboardEvent): void {
    if (event.key === 'Enter' && !event.shiftKey && !event.nativeEvent.isComposing) submit(event);
  }

  return (
    <form onSubmit={submit}>
      <textarea
        aria-label="Message"
        placeholder="Message the parrot"
        rows={1}
        value={draft}
        onChange={(event) => setDraft(event.target.value)}
        onKeyDown={submitOnEnter}
        autoFocus
      />
      {busy ? (
        <button type="button" onClick={onStop} aria-label="Stop">
          <svg viewBox="0 0 24 24" aria-hidden="true">
            <rect x="7" y="7" width="10" height="10" rx="2" fill="currentColor" />
          </svg>
        </button>
      ) : (
        <button type="submit" disabled={draft.trim() === ''} aria-label="Send">
          <svg viewBox="0 0 24 24" aria-hidden="true">
            <path
              d="M12 19V6m-6 6 6-6 6 6"
              fill="none"
              stroke="currentColor"
              strokeWidth="2.2"
              strokeLinecap="round"
              strokeLinejoin="round"
            />
          </svg>
        </button>
      )}
    </form>
  );
}

function Parrot(): ReactNode {
  return (
    <svg className="parrot" viewBox="0 0 48 48" aria-hidden="true">
      <rect width="48" height="48" rx="14" fill="var(--accent)" />
      <path d="M11 40V22a11.5 11.5 0 0 1 11.5-11.5C30 10.5 35 16 35 23c0 6-4 10-9 10v7Z" fill="#fff" />
      <path d="M29 18.5c6 0 10.5 4 10.5 9.5 0 3.5-1.5 6-4 7.5.5-4.5-1.5-8-6.5-8.5Z" fill="#f4b63f" />
      <path
        d="M18 11c-1-3 1-5.5 4-6-.5 1.5 0 3 1.5 3.5 1-1.5 2.5-2 4.5-1.5-1.5 1-2 2-2 3.5Z"
        fill="#f4b63f"
      />
      <circle cx="24.5" cy="20" r="2.4" fill="#1d2a24" />
    </svg>
  );
}

function textOf({ parts }: ChatMessage): string {
  return parts.map((part) => (part.type === 'text' ? part.text : '')).join('');
}

/** What was left after each message; a question costs nothing. */
function balancesOf(messages: readonly ChatMessage[], start: string): string[] {
  let balance = start;
  return messages.map(({ parts }) => {
    for (const part of parts) if (part.type === 'data-balance') balance = part.data;
    return balance;
  });
}

function dollars(amount: number): string {
  return `$${amount.toFixed(4)}`;
}
