import * as http from 'node:http';

import express, { type RequestHandler } from 'express';

import { describeRouter } from './contracts/router.ts';
import { listen, type Mount, mountOnNode } from './helpers/gateway.ts';

describeRouter('node:http', mountOnNode);
describeRouter('Express 5', mountOnExpress());
describeRouter('Express 5, in a sub-app', (router) => {
  const app = express();
  const api = express.Router();
  api.use('/', router);
  app.use('/api/v1/', api);
  return listen(http.createServer(app), '/api/v1');
});
describeRouter('Express 5 behind express.raw()', mountOnExpress(express.raw({ type: '*/*', limit: '10mb' })));
describeRouter(
  'Express 5 behind express.text()',
  mountOnExpress(express.text({ type: '*/*', limit: '10mb' })),
);

function mountOnExpress(...before: RequestHandler[]): Mount {
  return (router) => {
    const app = express();
    app.use(...before, (_request, _response, next) => {
      next();
    });
    app.use('/v1', router);
    return listen(http.createServer(app), '/v1');
  };
}
