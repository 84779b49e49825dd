import type { JSX } from 'preact';
import { useLayoutEffect, useRef } from 'preact/hooks';

import type { LiveRow } from '../api-rows.ts';
import { LiveRequests } from '../usage/live-requests.tsx';
import type { List } from '../../../page/api.ts';
import { useResource } from '../../../page/resource.ts';
import type { Session } from '../session.ts';

const REFRESH_MS = 3000;
const FILTERS = ['account', 'key', 'model', 'provider'] as const;

export interface RunningRequestsProps {
  readonly session: Session;
  /** Those of the log. */
  readonly filters: Readonly<Record<string, string>>;
  /** The address asks for them: they are scrolled to. */
  readonly isAskedFor: boolean;
}

/** The requests that run now, with the filters of the log that they can have. */
export function RunningRequests({ session, filters, isAskedFor }: RunningRequestsProps): JSX.Element {
  const place = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => {
    if (isAskedFor) place.current?.scrollIntoView();
  }, [isAskedFor]);
  const { data, at } = useResource<List<LiveRow>>(session, {
    subject: 'running',
    everyMs: REFRESH_MS,
    ask: () => session.api.list('running'),
  });
  const shown = data?.data.filter((request) =>
    FILTERS.every((name) => (filters[name] ?? request[name]) === request[name]),
  );
  return (
    <div ref={place}>
      <LiveRequests requests={shown} at={at} />
    </div>
  );
}
