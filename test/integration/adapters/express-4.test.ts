import * as http from 'node:http';

import compression from 'compression';
import cors from 'cors';
import type { RequestHandler } from 'express';
import express from 'express-4';

import { describeRouter } from '../../contracts/index.ts';
import { listen, type Mount } from '../../helpers/gateway.ts';

function mount(path: string, ...before: RequestHandler[]): Mount {
  return (router) => {
    const app = express();
    for (const middleware of before) app.use(middleware);
    app.use(path, router);
    return listen(http.createServer(app), path.replace(/\/$/, ''));
  };
}

describeRouter('Express 4', mount('/v1'));
describeRouter(
  'Express 4 behind cors and compression',
  mount('/api/v1/', cors(), compression({ threshold: 0 })),
);
describeRouter('Express 4 behind express.json()', mount('/v1', express.json()), { rendersBodies: true });
describeRouter('Express 4, at the root of a sub-app', (router) => {
  const app = express();
  const api = express();
  api.use(router);
  app.use('/api/v1', api);
  return listen(http.createServer(app), '/api/v1');
});
