import type { PlaygroundKey as SessionKey } from '../../../client/admin-api.generated.ts';
import type { Api } from '../../../page/api.ts';

type Authorization = Readonly<Record<string, string>>;

/** A key is replaced this long before it ends. */
const MARGIN_MS = 30_000;

/** What the playground's requests are authorized with: the API key that has signed in, or a short-lived key of the host's session. */
export class PlaygroundKey {
  readonly #api: Api;
  #current: SessionKey | undefined;

  constructor(api: Api) {
    this.#api = api;
  }

  /** @throws {ApiError} */
  async authorization(isHost: boolean): Promise<Authorization> {
    if (!isHost) return this.#api.authorization();
    if (!this.#current || Date.parse(this.#current.expires_at) - MARGIN_MS < Date.now()) {
      this.#current = await this.#api.change<SessionKey>('POST', 'playground', {});
    }
    return { authorization: `Bearer ${this.#current.key}` };
  }

  /** Whether another key may do what this one may not: it has ended or is spent. It is asked for no more. */
  replace(status: number, body: string): boolean {
    if (!this.#current || (status !== 401 && !(status === 402 && body.includes('budget_exceeded'))))
      return false;
    this.#current = undefined;
    return true;
  }
}
