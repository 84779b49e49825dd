import { createHash } from 'node:crypto';

import { createApi } from './page/api.ts';
import { startPage } from './page/app.ts';
import { createElements } from './page/elements.ts';
import { createFigures } from './page/figures.ts';
import { MARKUP } from './page/markup.ts';
import { createPlots } from './page/plots.ts';
import { createPointing } from './page/pointing.ts';
import { createReadings } from './page/readings.ts';
import { createReport } from './page/report.ts';
import { STYLE } from './page/style.ts';
import { createTables } from './page/tables.ts';

/** The usage page, as it is served. */
export interface Page {
  readonly html: string;
  /** Allows what stands in the page and nothing else: no other script or style, no other origin, no frame around it. */
  readonly contentSecurityPolicy: string;
}

/**
 * The usage page: one document that asks the admin door for its numbers, by addresses beside its own.
 *
 * It holds no data, so that it may be served to anybody.
 */
export function page(): Page {
  return (made ??= make());
}

let made: Page | undefined;

/**
 * The page's program is these functions' own text: type-checked here, run there. Each is given what it needs,
 * because a name from outside of it would not exist in the browser.
 */
const PARTS = {
  createApi,
  createElements,
  createFigures,
  createPlots,
  createPointing,
  createReadings,
  createReport,
  createTables,
  startPage,
};

function make(): Page {
  const script = `'use strict';
{
// Bundlers that keep names wrap functions in calls of this.
const __name = (value) => value;
${Object.entries(PARTS)
  .map(([name, part]) => `const ${name} = ${part.toString()};`)
  .join('\n')}
const api = createApi(window);
const figures = createFigures();
const elements = createElements(document);
const plots = createPlots(window, elements, figures, createPointing(window, elements));
const report = createReport(elements, figures, plots);
const tables = createTables(elements, figures, plots);
const readings = createReadings(api, figures);
startPage(window, { elements, figures, api, readings, report, tables });
}`;
  const html = MARKUP.replace('{style}', () => STYLE).replace('{script}', () => script);
  const contentSecurityPolicy = [
    "default-src 'none'",
    `script-src ${hashOf(script)}`,
    `style-src ${hashOf(STYLE)}`,
    "connect-src 'self'",
    'img-src data:',
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
    "require-trusted-types-for 'script'",
    "trusted-types 'none'",
  ].join('; ');
  return { html, contentSecurityPolicy };
}

function hashOf(text: string): string {
  return `'sha256-${createHash('sha256').update(text).digest('base64')}'`;
}
