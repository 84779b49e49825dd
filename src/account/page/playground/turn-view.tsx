import type { JSX } from 'preact';

import { CopyButton } from '../../../page/copy-button.tsx';
import { grouped, money, nanos } from '../../../page/format.ts';
import { hrefOf } from '../../../page/route.ts';
import type { Answer, Turn } from './conversation.ts';

interface TurnViewProps {
  readonly turn: Turn;
  /** Undefined if it can't be asked again. */
  readonly retry: (() => void) | undefined;
}

const STATES: Readonly<Record<Answer['state'], string>> = {
  waiting: 'Waiting for the answer',
  streaming: 'Answering',
  done: 'Answer complete',
  stopped: 'Stopped',
  failed: 'Failed',
};

/** A question and its answer, both as plain text. */
export function TurnView({ turn: { question, answer }, retry }: TurnViewProps): JSX.Element {
  const { state, text, failure } = answer;
  return (
    <div class="turn">
      <div class="bubble">{question}</div>
      <div class="answer" data-state={state}>
        {text}
        {state === 'waiting' && <span class="typing" aria-hidden="true" />}
      </div>
      <span class="unseen" role="status">
        {STATES[state]}
      </span>
      {failure && (
        <div class="failure" role="alert">
          <p>{failure.text}</p>
          {failure.detail !== '' && <p class="faint">{failure.detail}</p>}
          <p class="faint">
            {failure.code !== undefined && (
              <>
                Code <code>{failure.code}</code>{' '}
              </>
            )}
            {answer.requestId !== undefined && (
              <>
                Request <code>{answer.requestId}</code> <CopyButton text={answer.requestId} />
              </>
            )}
          </p>
        </div>
      )}
      <Footer answer={answer} retry={failure ? retry : undefined} />
    </div>
  );
}

function Footer({
  answer,
  retry,
}: {
  readonly answer: Answer;
  readonly retry: TurnViewProps['retry'];
}): JSX.Element {
  const { state, tokens, charged, requestId } = answer;
  const isOver = state === 'done' || state === 'stopped' || state === 'failed';
  return (
    <p class="turn-foot">
      {state === 'stopped' && <span>Stopped</span>}
      {tokens && <span>{`${grouped(tokens.prompt)} in, ${grouped(tokens.completion)} out`}</span>}
      {charged !== undefined && <span class="charge">{chargeText(charged)}</span>}
      {isOver && requestId !== undefined && <a href={hrefOf('requests', requestId)}>Request</a>}
      {retry && (
        <button type="button" class="outline" onClick={retry}>
          Try again
        </button>
      )}
    </p>
  );
}

function chargeText(charged: string): string {
  return nanos(charged) === 0n ? 'Nothing was charged' : money(nanos(charged));
}
