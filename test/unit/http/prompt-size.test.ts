import { describe, expect, it } from 'vitest';

import type { ChatRequest } from '../../../src/http/chat-request.ts';
import { request, scan } from '../../helpers/scanned-request.ts';

describe('the size of a prompt', () => {
  it('counts messages and the bytes of strings and keys, but not the names of parameters', () => {
    // Keys: role, content. Values: m, user, hé.
    expect(scan('{"model":"m","messages":[{"role":"user","content":"hé"},5],"n":1}').size).toEqual({
      messages: 2,
      stringBytes: 4 + 7 + 1 + 4 + 3,
      asciiChars: 4 + 7 + 1 + 4 + 1,
      nonAsciiChars: 1,
      images: 0,
      audioBytes: 0,
      files: 0,
      fileBytes: 0,
      linkedFiles: 0,
      toolLists: 0,
    });
  });

  it('counts an escape as one character', () => {
    const { asciiChars, nonAsciiChars, stringBytes } = added(request(String.raw`"x":"\n\u0041\u4f60é"`));
    expect({ asciiChars, nonAsciiChars, stringBytes }).toEqual({
      asciiChars: 2,
      nonAsciiChars: 2,
      stringBytes: 16,
    });
  });

  it.each([
    ['"tools":[{"type":"function"}]', 1],
    ['"tools":[],"functions":[]', 2],
    ['"extra_body":{"tools":[]}', 1],
    ['"tools":null', 0],
    ['"response_format":{"type":"json_object"}', 0],
  ])('counts lists of tools: %s', (fields, toolLists) => {
    expect(scan(request(fields)).size).toMatchObject({ toolLists });
  });

  it('counts everything but white space of schemas', () => {
    const tools = '[{"a":"b","c":[1,true,null]}]';
    const { stringBytes, asciiChars } = added(request(`"tools": [ {"a": "b",\n"c":[1, true,null]} ]`));
    expect(stringBytes).toBe(tools.length);
    expect(asciiChars).toBe(stringBytes);
  });

  it.each([
    ['{"type":"image_url","image_url":{"url":"data:image/png;base64,QUJD"}}', { images: 1 }],
    ['{"type":"image_url","image_url":{"url":"https://example.com/a.png"}}', { images: 1 }],
    ['{"type":"image_url","image_url":"https://example.com/a.png"}', { images: 1 }],
    [String.raw`{"im\u0061ge_url":{"url":"data:,x"},"IMAGE_URL":{"url":"data:,y"}}`, { images: 2 }],
    ['{"type":"video","video":["https://x.example/1.png","data:image/png;base64,QUJD"]}', { images: 2 }],
    ['{"type":"input_audio","input_audio":{"data":"QUJDREVG","format":"wav"}}', { audioBytes: 6 }],
  ])('counts media: %s', (part, media) => {
    expect(scan(withPart(part)).size).toMatchObject({ images: 0, audioBytes: 0, files: 0, ...media });
  });

  it.each([
    ['{"type":"file","file":{"file_data":"data:application/pdf;base64,QUJD"}}', 32],
    ['{"type":"file","file":{"filename":"a.pdf","file_data":"data:,abc"}}', 9],
    ['{"type":"document_url","document_url":"data:application/pdf;base64,QUJD"}', 32],
    ['{"type":"image_url","image_url":{"url":"data:application/pdf;base64,QUJD"}}', 32],
    [String.raw`{"image_url":{"url":"data:\u0076ideo\/mp4;base64,QUJD"}}`, 26],
    ['{"type":"image_url","image_url":"data:video/mp4;base64,QUJD"}', 26],
  ])('counts a file by its bytes where they are in the request: %s', (part, fileBytes) => {
    expect(scan(withPart(part)).size).toMatchObject({ images: 0, files: 1, linkedFiles: 0, fileBytes });
  });

  it.each([
    '{"type":"file","file":{"file_id":"file-1"}}',
    '{"type":"file","file":{"file_data":"https://x.example/a.pdf"}}',
    '{"type":"file","file":{"file_data":"data:,x","file_id":"file-1"}}',
    '{"type":"file","file":{"file_id":"file-1","file_data":"data:,x"}}',
    '{"type":"file","file":{}}',
    '{"type":"video_url","video_url":{"url":"https://x.example/a.mp4"}}',
    '{"type":"audio_url","audio_url":{"url":"https://x.example/a.mp3"}}',
    '{"type":"document_url","document_url":"https://x.example/a.pdf"}',
    '{"type":"file_url","file_url":{"url":"https://x.example/a.pdf"}}',
    '{"what":"https://x.example/a.pdf"}',
    '{"what":{"source":[{"uri":"gs://bucket/a.pdf"}]}}',
    '{"type":"web_search","query":"a"}',
    '{"type":"tool_reference","tool_name":"a"}',
    '{"type":7}',
    String.raw`{"what":"\u0068ttps:\/\/x.example/a.pdf"}`,
  ])('counts a file that is somewhere else: %s', (part) => {
    expect(scan(withPart(part)).size).toMatchObject({ files: 1, linkedFiles: 1 });
  });

  it.each([
    '{"type":"text","text":"https://x.example is a link"}',
    '{"type":"thinking","thinking":[{"type":"text","text":"https://x.example"}]}',
    '{"type":"text","text":"a","cache_control":{"type":"ephemeral"}}',
    '{"type":"tool_result","tool_use_id":"a","content":"b"}',
    '{"type":null,"text":"a"}',
    '{"text":"a"}',
  ])('takes no text for a file: %s', (part) => {
    expect(scan(withPart(part)).size).toMatchObject({ files: 0, linkedFiles: 0 });
  });

  it.each(['null', '{}', '"ephemeral"', '[]'])(
    'reads what follows "cache_control":%s as it is',
    (control) => {
      const tool = `{"type":"function","function":{"name":"f"},"cache_control":${control}}`;
      const { features } = scan(request(`"tools":[${tool},{"type":"web_search"}]`));
      expect(features).toMatchObject([{ name: 'web_search', path: 'tools[1].type' }]);

      const image = '{"type":"image_url","image_url":{"url":"https://x.example/a"}}';
      const text = `{"type":"text","text":"a","cache_control":${control}}`;
      expect(scan(withPart(`${text},${image}`)).size).toMatchObject({ images: 1 });

      const message = `{"role":"user","content":"a","cache_control":${control}}`;
      const next = `{"role":"user","content":[${image}]}`;
      const { size } = scan(`{"model":"a","messages":[${message},${next}]}`);
      expect(size).toMatchObject({ messages: 2, images: 1 });
    },
  );

  it('counts no bytes of media as text', () => {
    const short = '{"image_url":{"url":"data:x"}}';
    const long = short.replace('x', 'x'.repeat(100_000));
    expect(scan(withPart(long)).size).toEqual(scan(withPart(short)).size);
  });

  it.each([
    ['{"type":"text","text":"data:TEXT"}'],
    ['{"type":"text","url":"data:TEXT"}'],
    ['{"type":"text","data":"data:TEXT"}'],
    ['{"type":"text","file_data":"data:TEXT"}'],
    ['{"image_url":{"url":"TEXT"}}'],
    ['{"image_url":{"alt":"data:TEXT"}}'],
    ['{"image_url":{"url":["data:TEXT"]}}'],
    ['{"image_url":{"x":{"url":"data:TEXT"}}}'],
    ['{"image_url":[{"url":"data:TEXT"}]}'],
    ['{"x":{"image_url":{"url":"data:TEXT"}}}'],
    ['[{"image_url":{"url":"data:TEXT"}}]'],
    ['{"file":{"file_data":"TEXT"}}'],
    ['{"file":{"filename":"data:TEXT"}}'],
    ['{"input_audio":"TEXT"}'],
    ['{"input_audio":{"format":"TEXT"}}'],
  ])('can not be made to overlook text: %s', (part) => {
    const long = scan(withPart(part.replace('TEXT', 'x'.repeat(1000)))).size.stringBytes;
    expect(long - scan(withPart(part.replace('TEXT', ''))).size.stringBytes).toBe(1000);
  });

  it.each([
    '"image_url":{"url":"data:TEXT"}',
    '"messages2":[{"content":[{"image_url":{"url":"data:TEXT"}}]}]',
  ])('counts as text what looks like media but lies elsewhere: %s', (field) => {
    expect(added(request(field)).stringBytes).toBeGreaterThanOrEqual('data:TEXT'.length);
    expect(added(request(field)).images).toBe(0);
  });
});

function withPart(part: string): string {
  return `{"model":"m","messages":[{"role":"user","content":[${part}]}]}`;
}

/** What the size of a request has more than that of the same without other fields. */
function added(body: string): ChatRequest['size'] {
  const plain = scan(request()).size;
  const { size } = scan(body);
  return {
    ...size,
    stringBytes: size.stringBytes - plain.stringBytes,
    asciiChars: size.asciiChars - plain.asciiChars,
    nonAsciiChars: size.nonAsciiChars - plain.nonAsciiChars,
  };
}
