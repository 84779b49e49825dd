/** The `data` of each event of a stream, as it arrives. */
export async function* eventData(body: ReadableStream<Uint8Array>): AsyncGenerator<string> {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = '';
  for (;;) {
    const { done, value } = await reader.read();
    const lines = (rest + decoder.decode(value, { stream: !done })).split(/\r\n|\r|\n/);
    rest = done ? '' : (lines.pop() ?? '');
    for (const line of lines) if (line.startsWith('data:')) yield line.slice(5).trimStart();
    if (done) return;
  }
}
