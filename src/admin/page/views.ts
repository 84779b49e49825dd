import type { JSX } from 'preact';

import { AccountsView } from './accounts/accounts-view.tsx';
import { ProvidersView } from './providers/providers-view.tsx';
import { RequestsView } from './requests/requests-view.tsx';
import type { Route } from './route.ts';
import type { Session } from './session.ts';
import { UsageView } from './usage/usage-view.tsx';

export interface ViewProps {
  readonly session: Session;
  readonly route: Route;
}

interface ViewEntry {
  /** In the address. */
  readonly name: string;
  readonly View: (props: ViewProps) => JSX.Element;
}

/** The views, in the order of the links in `frame.tsx`; the first is the one without an address. */
export const VIEWS: readonly [ViewEntry, ...ViewEntry[]] = [
  { name: 'overview', View: UsageView },
  { name: 'accounts', View: AccountsView },
  { name: 'requests', View: RequestsView },
  { name: 'providers', View: ProvidersView },
];
