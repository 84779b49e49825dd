import type { Route } from '../../page/route.ts';
import type { PageSession } from '../../page/session.ts';
import type { Holder } from '../../client/admin-api.generated.ts';
import type { Conversation } from './playground/conversation.ts';

export type Session = PageSession<Holder>;

/** What each view gets. */
export interface ViewProps {
  readonly session: Session;
  readonly me: Holder;
  readonly route: Route;
  /** Of the playground; it stays while other views are shown. */
  readonly conversation: Conversation;
}
