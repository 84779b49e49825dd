import type { Route } from '../../page/route.ts';
import type { Session } from './session.ts';

/** What each view of the console gets. */
export interface ViewProps {
  readonly session: Session;
  readonly route: Route;
}
