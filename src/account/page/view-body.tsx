import type { ComponentChildren, JSX } from 'preact';

/** In place of cards that are not here yet. */
export function Loading(): JSX.Element {
  return (
    <div class="loading" role="status">
      <span class="unseen">Loading</span>
      <div class="card bone" />
      <div class="card bone tall" />
    </div>
  );
}

interface ViewBodyProps {
  readonly title: string;
  /** A sentence about what it shows. */
  readonly about?: ComponentChildren;
  readonly notice?: string | undefined;
  readonly controls?: ComponentChildren;
  /** Undefined until it has something to show. */
  readonly children: ComponentChildren;
}

/** A view's heading, its last error, and its cards. */
export function ViewBody({ title, about, notice, controls, children }: ViewBodyProps): JSX.Element {
  return (
    <>
      <div class="view-head">
        <div>
          <h1>{title}</h1>
          {about !== undefined && <p class="about">{about}</p>}
        </div>
        {controls !== undefined && <div class="controls">{controls}</div>}
      </div>
      <div id="notice" class="notice bad" role="status" hidden={notice === undefined}>
        {notice}
      </div>
      {children === undefined ? notice === undefined && <Loading /> : <div id="report">{children}</div>}
    </>
  );
}
