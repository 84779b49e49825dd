/** Whether everything is run, as `npm run test:all` asks for: `npm test` takes samples of what takes long. */
export const IS_FULL = process.env['CCR_FULL'] === '1';

/** How many cases of a property to try: so many in `npm run test:all`, a tenth of them in `npm test`. */
export function runs(full: number): number {
  return IS_FULL ? full : Math.ceil(full / 10);
}
