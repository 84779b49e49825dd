import { limitFor } from '../billing/admission.ts';
import type { Target } from '../catalog/model.ts';
import { memberEdits, withMovedLimit } from '../http/apply-body-rules.ts';
import type { BodyChunks } from '../http/body-chunks.ts';
import { spliceRequest } from '../http/splice-request.ts';
import type { OutgoingBody } from '../upstream/provider-client.ts';
import type { AdmittedRequest } from './admit-request.ts';

/** The client's request body, spliced for each target. */
export class ClientBody implements OutgoingBody {
  readonly #admitted: Pick<AdmittedRequest, 'read' | 'members' | 'hold'>;
  readonly #onError: (error: Error) => void;

  /** @param onError - called with the cause if a function in a target's body rules fails */
  constructor(admitted: Pick<AdmittedRequest, 'read' | 'members' | 'hold'>, onError: (error: Error) => void) {
    this.#admitted = admitted;
    this.#onError = onError;
  }

  /** @throws {UpstreamError} if a function in the target's body rules fails */
  for(target: Target): (includeUsage: boolean) => BodyChunks {
    const { body, model, modelId } = target;
    const { read, members, hold } = this.#admitted;
    const request = body?.limit === undefined ? read.request : withMovedLimit(read.request, body.limit);
    const { edit: outputLimit } = limitFor(target, request, hold.terms.quote, hold.outputLimit);
    const edits = { ...(model !== request.model && { model }), ...(outputLimit && { outputLimit }) };
    if (!body) return (includeUsage) => spliceRequest(read.body, request, { ...edits, includeUsage });
    const { account, key } = hold.terms.caller;
    const caller = { account, key, model: modelId };
    const ruled = memberEdits(body.rules, members, request.routingFields, caller, this.#onError);
    return (includeUsage) => spliceRequest(read.body, request, { ...edits, members: ruled, includeUsage });
  }
}
