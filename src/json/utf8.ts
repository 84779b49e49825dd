/** The index of the first byte, from this one on, that isn't a continuation byte. */
export function afterCut(bytes: Uint8Array, index: number): number {
  let at = index;
  while (((bytes[at] ?? 0) & 0xc0) === 0x80) at++;
  return at;
}

/** The end of the last whole character before `end`; `end` itself if the bytes before it are no valid character. */
export function beforeCut(bytes: Uint8Array, end: number): number {
  for (let at = end - 1; at >= end - 3; at--) {
    const byte = bytes[at] ?? 0;
    if (byte < 0x80) return end;
    if (byte >= 0xc0) return at + (byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4) > end ? at : end;
  }
  return end;
}
