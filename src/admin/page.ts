import { type Page, pageOf } from '../json-api/page.ts';
import { HTML, SCRIPT_HASH, STYLE_HASH } from './page.generated.ts';

/** The console. */
export const PAGE: Page = pageOf(HTML, SCRIPT_HASH, STYLE_HASH);
