import type { WebHandler } from '../../../src/index.ts';
import { describeMountEdges } from '../../contracts/mount-edges.ts';
import { describeRouter } from '../../contracts/index.ts';
import { listen, mountOnNode, startGateway } from '../../helpers/gateway.ts';
import { createWebServer } from '../../helpers/web-server.ts';

/** What a route of Astro, SvelteKit or React Router is given: an object with the request in it, and more. */
interface RouteEvent {
  readonly request: Request;
  readonly params: Readonly<Record<string, string>>;
}

describeRouter('the Web door', (router) => listen(createWebServer(router.fetch), '/api/v1'));
describeRouter('routes that are given an event with the request', (router) => {
  const route = ({ request }: RouteEvent): Promise<Response> => router.fetch(request);
  // React Router's names; SvelteKit's `fallback` and Astro's `ALL` are both.
  const [loader, action] = [route, route];
  const serve: WebHandler = (request) => {
    const reads = ['GET', 'HEAD', 'OPTIONS'].includes(request.method);
    return (reads ? loader : action)({ request, params: { path: 'any' } });
  };
  return listen(createWebServer(serve), '/v1');
});
describeMountEdges('the Web door', () =>
  startGateway({}, (router) => listen(createWebServer(router.fetch), '/v1')),
);
describeMountEdges('the Node door', () => startGateway({}, mountOnNode));
