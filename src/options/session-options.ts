/** Sessions for browsers. */
export interface SessionOptions {
  /**
   * Signs sessions: 32 to 512 characters, as `openssl rand -base64 32` makes them, the same in all processes. With several,
   * the first signs and all are accepted: put a new one first, and remove the old one when its sessions have expired.
   */
  readonly secret: string | readonly string[];
}
