import * as crypto from 'node:crypto';

import { type Page, pageOf } from '../json-api/page.ts';
import type { AccountRouterOptions } from './options.ts';
import { HTML, SCRIPT_HASH, STYLE } from './page.generated.ts';
import { themeCss } from './theme.ts';

/** The page of the account API, with the host's title and colors. */
export function accountPage({
  title = 'Account',
  theme = {},
  darkTheme = {},
  keyHolders = 'manage',
}: AccountRouterOptions): Page {
  const style = STYLE.replace('/*theme*/', () => themeCss(theme, darkTheme));
  const text = inHtml(title);
  const notes = `data-title="${text}"${keyHolders === 'none' ? ' data-keys="none"' : ''}`;
  const html = HTML.replace(STYLE, () => style)
    .replace(/<title>[^<]*<\/title>/, () => `<title>${text}</title>`)
    .replace('<html ', () => `<html ${notes} `);
  return pageOf(html, SCRIPT_HASH, `sha256-${crypto.hash('sha256', style, 'base64')}`);
}

/** As text or in a quoted attribute. */
function inHtml(text: string): string {
  return text.replace(/[&<>"']/g, (character) => `&#${character.charCodeAt(0)};`);
}
