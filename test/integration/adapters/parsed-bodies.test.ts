import * as http from 'node:http';

import express, { type RequestHandler } from 'express';
import { describe, expect, it } from 'vitest';

import { type Gateway, listen, startGateway } from '../../helpers/gateway.ts';

/** Odd but valid: a big integer, a float that is whole, a repeated key, an escape. */
const BODY = '{"model":"acme/fast","messages":[],"seed":12345678901234567890,"t":1.0,"t":2,"e":"\\u00e9"}';
const AT_PROVIDER = BODY.replace('acme/fast', 'upstream-model');

function behind(...before: RequestHandler[]): Promise<Gateway> {
  return startGateway({}, (router) => {
    const app = express();
    app.use(...before);
    app.use('/v1', router);
    return listen(http.createServer(app), '/v1');
  });
}

describe('a body that was read before the router', () => {
  it.each([
    ['express.raw()', express.raw({ type: '*/*' })],
    ['express.text()', express.text({ type: '*/*' })],
    [
      'express.json() that keeps rawBody',
      express.json({
        verify: (request, _response, bytes) => {
          Object.assign(request, { rawBody: bytes });
        },
      }),
    ],
  ])('goes out byte for byte after %s', async (_name, parser) => {
    const gateway = await behind(parser);
    const response = await gateway.post(BODY);
    expect(response.status).toBe(200);
    expect(String(gateway.provider.received[0]?.body)).toBe(AT_PROVIDER);
    await gateway.close();
  });

  it('goes out as its JSON after express.json(), which is all that is left of it', async () => {
    const gateway = await behind(express.json());
    const response = await gateway.post(BODY);
    expect(response.status).toBe(200);
    expect(JSON.parse(String(gateway.provider.received[0]?.body))).toEqual(JSON.parse(AT_PROVIDER));
    await gateway.close();
  });

  it('is an error that says so, when nothing of it was kept', async () => {
    const gateway = await behind((request, _response, next) => {
      request.resume().once('end', () => {
        next();
      });
    });
    const response = await gateway.post(BODY);
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect(error.code).toBe('truncated_body');
    expect(error.message).toContain('set req.rawBody to the bytes or text, or req.body to the parsed JSON');
    expect((await gateway.router.credits.balance('acct')).held).toBe('0.00');
    await gateway.close();
  });

  it('is read from the stream where a parser left it alone', async () => {
    const gateway = await behind(express.json({ type: 'application/vnd.other+json' }));
    expect((await gateway.post(BODY)).status).toBe(200);
    expect(String(gateway.provider.received[0]?.body)).toBe(AT_PROVIDER);
    await gateway.close();
  });

  it('is an error that names both lengths, when it was cut on its way', async () => {
    const gateway = await behind(express.raw({ type: '*/*' }), (request, _response, next) => {
      request.body = (request.body as Buffer).subarray(0, 50);
      next();
    });
    const response = await gateway.post(BODY);
    expect(response.status).toBe(413);
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect(error.code).toBe('request_too_large');
    expect(error.message).toContain(`${BODY.length} bytes, but the router received 50`);
    await gateway.close();
  });

  it.each(['utf8', 'latin1', 'base64'] as const)(
    'is the same where its stream is to be read as %s',
    async (encoding) => {
      const gateway = await behind((request, _response, next) => {
        request.setEncoding(encoding);
        next();
      });
      const body = BODY.replace('[]', '[{"role":"user","content":"Grüße, 世界"}]');
      expect((await gateway.post(body)).status).toBe(200);
      expect(String(gateway.provider.received[0]?.body)).toBe(body.replace('acme/fast', 'upstream-model'));
      await gateway.close();
    },
  );

  it.each([
    ['express.json()', express.json()],
    ['express.raw()', express.raw({ type: '*/*' })],
    ['express.text()', express.text({ type: '*/*' })],
  ])('is said to be empty where it is, behind %s', async (_name, parser) => {
    const gateway = await behind(parser);
    const response = await gateway.post('');
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { code: string; message: string } };
    expect(error).toMatchObject({
      code: 'invalid_json',
      message: expect.stringContaining('is empty') as string,
    });
    await gateway.close();
  });

  it('is said to be of the wrong type where a parser that is not strict has read a text', async () => {
    const gateway = await behind(express.json({ strict: false }));
    const response = await gateway.post('"abc"');
    expect(response.status).toBe(400);
    expect(await response.json()).toMatchObject({ error: { code: 'invalid_type' } });
    await gateway.close();
  });
});
