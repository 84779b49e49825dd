import { limitEdit } from '../billing/admission.ts';
import type { Target } from '../catalog/model.ts';
import { type BodyRule, memberEdits, withMovedLimit } from '../http/apply-body-rules.ts';
import type { BodyChunks } from '../http/body-chunks.ts';
import type { ChatRequest } from '../http/chat-request.ts';
import type { ReadRequest } from '../http/read-body.ts';
import { type MemberEdits, type RequestEdits, spliceRequest } from '../http/splice-request.ts';
import type { OutgoingBody } from '../upstream/provider-client.ts';
import type { AdmittedRequest } from './admit-request.ts';

/** The client's request body, spliced for each target. */
export class ClientBody implements OutgoingBody {
  readonly #admitted: Pick<AdmittedRequest, 'read' | 'members' | 'hold'>;
  readonly #onError: (error: Error, requestId: string) => void;

  /** @param onError - called with the cause if a function in a target's body rules fails */
  constructor(
    admitted: Pick<AdmittedRequest, 'read' | 'members' | 'hold'>,
    onError: (error: Error, requestId: string) => void,
  ) {
    this.#admitted = admitted;
    this.#onError = onError;
  }

  /** @throws {UpstreamError} if a function in the target's body rules fails */
  for(target: Target): TargetBody {
    const { body, model } = target;
    const { read, hold } = this.#admitted;
    const request = body?.limit === undefined ? read.request : withMovedLimit(read.request, body.limit);
    const outputLimit = limitEdit(target, request, hold.terms.quote, hold.outputLimit);
    const edited = model === request.model ? undefined : model;
    const members = body && this.#editsBy(body.rules, target);
    return new TargetBody(read, request, { model: edited, outputLimit, members });
  }

  #editsBy(rules: readonly BodyRule[], { modelId }: Target): MemberEdits {
    const { read, members, hold } = this.#admitted;
    const { requestId, caller } = hold.terms;
    const { account, key } = caller;
    const { routingFields } = read.request;
    return memberEdits(rules, members, routingFields, { account, key, model: modelId }, (error) => {
      this.#onError(error, requestId);
    });
  }
}

/** A client's request body with the edits for one target. */
class TargetBody {
  readonly #read: ReadRequest;
  readonly #request: ChatRequest;
  readonly #edits: RequestEdits;

  constructor(read: ReadRequest, request: ChatRequest, edits: RequestEdits) {
    this.#read = read;
    this.#request = request;
    this.#edits = edits;
  }

  bytes(includeUsage: boolean): BodyChunks {
    const edits = includeUsage ? { ...this.#edits, includeUsage } : this.#edits;
    return spliceRequest(this.#read.body, this.#request, edits);
  }
}
