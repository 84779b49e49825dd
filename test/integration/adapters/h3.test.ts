import * as http from 'node:http';

import { fromNodeHandler, fromWebHandler, H3, toNodeHandler } from 'h3';

import { describeRouter } from '../../contracts/index.ts';
import { listen } from '../../helpers/gateway.ts';

describeRouter('h3 2', (router) => {
  const app = new H3();
  app.all('/v1/**', (event) => router.fetch(event.req));
  return listen(http.createServer(toNodeHandler(app)), '/v1');
});
describeRouter('h3 2, with fromWebHandler, behind middleware', (router) => {
  const app = new H3();
  app.use(async (event, next) => {
    event.res.headers.set('access-control-allow-origin', '*');
    return next();
  });
  app.all('/api/v1/**', fromWebHandler(router.fetch));
  return listen(http.createServer(toNodeHandler(app)), '/api/v1');
});
describeRouter('h3 2, with app.mount', (router) => {
  const app = new H3();
  app.mount('/v1', router);
  return listen(http.createServer(toNodeHandler(app)), '/v1');
});
describeRouter('h3 2, with fromNodeHandler, at the root of a sub-app', (router) => {
  const app = new H3();
  const api = new H3();
  api.all('/**', fromNodeHandler(router));
  app.mount('/api/v1', api);
  return listen(http.createServer(toNodeHandler(app)), '/api/v1');
});
