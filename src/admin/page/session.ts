import type { Me } from '../../client/admin-api.generated.ts';
import type { PageSession } from '../../page/session.ts';

/** The session of an operator. */
export type Session = PageSession<Me>;
