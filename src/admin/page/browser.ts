/**
 * What the usage page uses of a browser. The program that serves the page is a server's: with the DOM's own
 * types in it, `document` would be a name that compiles everywhere.
 */
export interface Browser {
  readonly document: BrowserDocument;
  readonly location: {
    readonly origin: string;
    readonly pathname: string;
    readonly hash: string;
    reload(): void;
  };
  readonly history: { replaceState(state: null, unused: string, url: string): void };
  readonly sessionStorage: BrowserStorage;
  readonly localStorage: BrowserStorage;
  /** With `cache`, of which a server's `fetch` knows nothing. */
  fetch(url: string, init: RequestInit & { readonly cache: 'no-store' }): Promise<Response>;
  readonly ResizeObserver: new (callback: () => void) => { observe(element: BrowserElement): void };
}

export interface BrowserDocument {
  readonly documentElement: BrowserElement;
  readonly hidden: boolean;
  createElement(name: string): BrowserElement;
  createElementNS(namespace: string, name: string): BrowserElement;
  getElementById(id: string): BrowserElement | null;
  addEventListener(type: string, listener: (event: BrowserEvent) => void): void;
}

/** Of any element, what any of ours has: those of forms too. */
export interface BrowserElement {
  textContent: string | null;
  hidden: boolean;
  value: string;
  disabled: boolean;
  readonly clientWidth: number;
  readonly clientHeight: number;
  readonly offsetWidth: number;
  readonly offsetHeight: number;
  readonly style: { left: string; top: string };
  append(...nodes: (BrowserElement | string)[]): void;
  replaceChildren(...nodes: (BrowserElement | string)[]): void;
  setAttribute(name: string, value: string): void;
  removeAttribute(name: string): void;
  toggleAttribute(name: string, force: boolean): void;
  getBoundingClientRect(): { readonly left: number; readonly top: number; readonly width: number };
  addEventListener(type: string, listener: (event: BrowserEvent) => void): void;
  focus(): void;
}

export interface BrowserEvent {
  readonly key: string;
  readonly clientX: number;
  readonly clientY: number;
  preventDefault(): void;
}

export interface BrowserStorage {
  getItem(name: string): string | null;
  setItem(name: string, value: string): void;
  removeItem(name: string): void;
}
