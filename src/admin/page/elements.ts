import type { BrowserDocument, BrowserElement } from './browser.ts';

export type Attributes = Readonly<Record<string, string | number | boolean | undefined>>;
/** What isn't there is left out, so that `condition && element` can stand in a list. */
export type Child = BrowserElement | string | false | undefined;

/** Makes elements. Text is only ever set as text, whoever wrote it: a name can't become markup. */
export interface Elements {
  readonly html: (name: string, attributes: Attributes, ...children: Child[]) => BrowserElement;
  readonly svg: (name: string, attributes: Attributes, ...children: Child[]) => BrowserElement;
  /** An element of the markup. */
  readonly get: (id: string) => BrowserElement;
  readonly fill: (id: string, ...children: Child[]) => void;
}

/** Runs in the browser: its text is inlined, so that it may name nothing outside of itself. */
export function createElements(document: BrowserDocument): Elements {
  const present = (child: Child): child is BrowserElement | string => child !== false && child !== undefined;

  function complete(element: BrowserElement, attributes: Attributes, children: Child[]): BrowserElement {
    for (const [name, value] of Object.entries(attributes)) {
      if (value === true) element.setAttribute(name, '');
      else if (value !== false && value !== undefined) element.setAttribute(name, String(value));
    }
    element.append(...children.filter(present));
    return element;
  }

  function get(id: string): BrowserElement {
    const element = document.getElementById(id);
    if (!element) throw new Error(`The page has no #${id}`);
    return element;
  }

  return {
    html: (name, attributes, ...children) => complete(document.createElement(name), attributes, children),
    svg: (name, attributes, ...children) =>
      complete(document.createElementNS('http://www.w3.org/2000/svg', name), attributes, children),
    get,
    fill: (id, ...children) => get(id).replaceChildren(...children.filter(present)),
  };
}
