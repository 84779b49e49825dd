import { describe, expect, it } from 'vitest';
import { parse, parseAllDocuments } from 'yaml';

import { resolveSettings } from '../../../src/options/resolve-options.ts';
import { documentedBlock, documentedPage } from '../../helpers/documented.ts';

const DEPLOYMENT = documentedPage('deployment.md');
const PAGES = { 'deployment.md': DEPLOYMENT, 'reverse-proxies.md': documentedPage('reverse-proxies.md') };

/** What `serve` can take to end: running requests, their end once aborted, charges, the log, the store, and the last bytes of answers. */
const { closeTimeoutMs } = resolveSettings({ store: 'memory:', providers: {}, models: {} });
const CLOSING_S = (3 * closeTimeoutMs + 7000) / 1000;

describe.each(Object.entries(PAGES))('docs/%s', (_name, page) => {
  const blocks = [...page.matchAll(/^```yaml\n# (\S+)\n(.*?)^```/gms)];

  it.each(blocks.map(([, name = '', text = '']) => [name, text]))(
    'has YAML that can be read: %s',
    (_file, text) => {
      const documents = parseAllDocuments(text);
      for (const { errors, warnings } of documents) expect([...errors, ...warnings]).toEqual([]);
    },
  );

  it('names each block of YAML', () => {
    expect(page.match(/^```yaml$/gm)?.length).toBe(blocks.length);
  });
});

describe('the grace periods of docs/deployment.md', () => {
  it('leave router.close() its time in Kubernetes, behind preStop', () => {
    const [deployment, service] = parseAllDocuments(documentedBlock('deployment.md', 'kubernetes.yaml'));
    const { spec } = (deployment!.toJS() as { spec: { template: { spec: PodSpec } } }).spec.template;
    const [container] = spec.containers;
    const { seconds } = container!.lifecycle.preStop.sleep;
    expect(spec.terminationGracePeriodSeconds).toBeGreaterThan(seconds + CLOSING_S);
    expect(container!.livenessProbe.httpGet).toEqual({ path: '/healthz', port: 'http' });
    expect(container!.readinessProbe.httpGet).toEqual({ path: '/readyz', port: 'http' });
    expect(container!.ports).toEqual([{ name: 'http', containerPort: 8787 }]);
    expect(service!.toJS()).toMatchObject({ spec: { selector: { app: 'chat-completions' } } });
  });

  it('and in Docker, Compose, systemd and PM2', () => {
    const compose = parse(documentedBlock('deployment.md', 'compose.yaml')) as {
      services: { router: { stop_grace_period: string } };
    };
    const periods = [
      compose.services.router.stop_grace_period,
      /--stop-timeout (\d+)/.exec(DEPLOYMENT)?.[1],
      /^TimeoutStopSec=(\d+)$/m.exec(DEPLOYMENT)?.[1],
      Number(/kill_timeout: ([\d_]+)/.exec(DEPLOYMENT)?.[1]?.replace('_', '')) / 1000,
    ].map((period) => Number.parseInt(String(period), 10));
    for (const period of periods) expect(period).toBeGreaterThan(CLOSING_S);
    expect(periods).toHaveLength(4);
  });
});

interface PodSpec {
  readonly terminationGracePeriodSeconds: number;
  readonly containers: readonly {
    readonly ports: unknown;
    readonly readinessProbe: { readonly httpGet: unknown };
    readonly livenessProbe: { readonly httpGet: unknown };
    readonly lifecycle: { readonly preStop: { readonly sleep: { readonly seconds: number } } };
  }[];
}
