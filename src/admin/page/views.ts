import type { JSX } from 'preact';

import { AccountsView } from './accounts/accounts-view.tsx';
import { HealthView } from './health/health-view.tsx';
import { KeysView } from './keys/keys-view.tsx';
import { ModelsView } from './models/models-view.tsx';
import { ProvidersView } from './providers/providers-view.tsx';
import { RequestsView } from './requests/requests-view.tsx';
import { UsageView } from './usage/usage-view.tsx';
import type { ViewProps } from './view-props.ts';

interface ViewEntry {
  /** In the address. */
  readonly name: string;
  readonly View: (props: ViewProps) => JSX.Element;
}

/** The views, in the order of the links in `frame.tsx`; the first is the one without an address. */
export const VIEWS: readonly [ViewEntry, ...ViewEntry[]] = [
  { name: 'overview', View: UsageView },
  { name: 'accounts', View: AccountsView },
  { name: 'keys', View: KeysView },
  { name: 'requests', View: RequestsView },
  { name: 'providers', View: ProvidersView },
  { name: 'models', View: ModelsView },
  { name: 'health', View: HealthView },
];
