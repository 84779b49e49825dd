import type { JSX } from 'preact';

import type { Holder } from '../../client/admin-api.generated.ts';
import { CreditsView } from './credits/credits-view.tsx';
import { KeysView } from './keys/keys-view.tsx';
import { PlaygroundView } from './playground/playground-view.tsx';
import { RequestsView } from './requests/requests-view.tsx';
import { StatementsView } from './statements/statements-view.tsx';
import { UsageView } from './usage/usage-view.tsx';
import type { ViewProps } from './view-props.ts';

export interface ViewEntry {
  /** In the address. */
  readonly name: string;
  readonly text: string;
  /** Who may not do this does not see the view. */
  readonly needs: Holder['may'][number];
  readonly View: (props: ViewProps) => JSX.Element;
}

/** The views, in the order of their links; the first is the one without an address. */
export const VIEWS: readonly [ViewEntry, ...ViewEntry[]] = [
  { name: 'credits', text: 'Credits', needs: 'read', View: CreditsView },
  { name: 'usage', text: 'Usage', needs: 'read', View: UsageView },
  { name: 'keys', text: 'API keys', needs: 'keys', View: KeysView },
  { name: 'requests', text: 'Requests', needs: 'read', View: RequestsView },
  { name: 'statements', text: 'Statements', needs: 'statements', View: StatementsView },
  { name: 'playground', text: 'Playground', needs: 'playground', View: PlaygroundView },
];
