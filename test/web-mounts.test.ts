import { describeRouter } from './contracts/router.ts';
import { listen } from './helpers/gateway.ts';
import { createWebServer } from './helpers/web-server.ts';

describeRouter('the Web door', (router) => listen(createWebServer(router.fetch), '/api/v1'));
