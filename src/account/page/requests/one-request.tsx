import type { JSX } from 'preact';

import { CopyButton } from '../../../page/copy-button.tsx';
import { type Fact, Facts } from '../../../page/facts.tsx';
import { duration, moment } from '../../../page/format.ts';
import { chargeOf, endingOf, StatusBadge, tokensOf } from '../../../page/requests/status.tsx';
import { useResource } from '../../../page/resource.ts';
import { hrefOf } from '../../../page/route.ts';
import type { OwnRequest } from '../../../client/admin-api.generated.ts';
import { keyNameOf, readKeyNames } from '../key-names.ts';
import { ViewBody } from '../view-body.tsx';
import type { Session } from '../view-props.ts';

const REFRESH_MS = 10_000;

interface RequestData {
  readonly request: OwnRequest;
  /** ID of a key → its name. */
  readonly keyNames: ReadonlyMap<string, string>;
}

interface OneRequestProps {
  readonly session: Session;
  readonly id: string;
}

/** What became of one request. */
export function OneRequest({ session, id }: OneRequestProps): JSX.Element {
  const { api } = session;
  const { data, notice } = useResource<RequestData>(session, {
    subject: id,
    everyMs: REFRESH_MS,
    async ask() {
      const [request, keyNames] = await Promise.all([
        api.get<OwnRequest>(`requests/${encodeURIComponent(id)}`),
        readKeyNames(api),
      ]);
      return { request, keyNames };
    },
  });
  return (
    <ViewBody title="Request" about={<a href={hrefOf('requests')}>All requests</a>} notice={notice}>
      {data && (
        <section class="card" aria-labelledby="request-title">
          <div class="title">
            <h2 id="request-title">
              <span class="mono">{data.request.id}</span> <CopyButton text={data.request.id} />
            </h2>
            <StatusBadge status={data.request.status} />
          </div>
          <Facts facts={factsOf(data)} />
        </section>
      )}
    </ViewBody>
  );
}

function factsOf({ request, keyNames }: RequestData): readonly Fact[] {
  const { model, key, status, code, first_byte_ms: firstByteMs, usage, user, state } = request;
  return [
    ['Arrived', moment(request.created_at)],
    ['Model', model && `${model}${request.streamed ? ', as a stream' : ''}`],
    ['Status', `${status}${code === undefined ? '' : ` ${code}`}`],
    ['Ended', endingOf(request)],
    ['First byte', firstByteMs === undefined ? undefined : duration(firstByteMs)],
    ['In all', duration(request.duration_ms)],
    ['Tokens', tokensOf(usage)],
    ['Charged', state === 'voided' || state === 'refused' ? 'Nothing' : chargeOf(request)],
    [
      'Key',
      <a key="key" title={key} href={hrefOf('requests', undefined, { key })}>
        {keyNameOf(keyNames, key)}
      </a>,
    ],
    ['End user', user],
    ['Your own ID', request.client_request_id],
  ];
}
