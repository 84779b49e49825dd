/**
 * `node scripts/page.ts`: builds `src/admin/page/` into `src/admin/page.generated.ts`, and `src/account/page/` alike:
 * each page as one document.
 *
 * A module, because a file beside the code is lost by bundlers. `npm ci` runs it, and whatever builds or tests: what
 * is served is never older than its sources.
 */
import { createHash } from 'node:crypto';
import { readFileSync, renameSync, writeFileSync } from 'node:fs';

import { build } from 'vite';

/** The folder of each page; its document is beside it. */
const PAGES = [
  { folder: 'src/admin/page', styleEnd: '' },
  // In place of this comment the account router writes the colors of its host.
  { folder: 'src/account/page', styleEnd: '/*theme*/' },
];

// Vitest says `test`, for which elements would be built with the places of their sources.
process.env['NODE_ENV'] = 'production';

for (const { folder, styleEnd } of PAGES) {
  const { document, script, style } = await bundle(folder, styleEnd);
  write(
    `${folder}.generated.ts`,
    `/** Built by \`scripts/page.ts\` from \`page/\`. */
export const HTML: string = ${JSON.stringify(document)};
export const SCRIPT_HASH: string = '${hashOf(script)}';
export const STYLE: string = ${JSON.stringify(style)};
export const STYLE_HASH: string = '${hashOf(style)}';
`,
  );
}

/** The document, with its script and style in it. */
async function bundle(
  folder: string,
  styleEnd: string,
): Promise<{ document: string; script: string; style: string }> {
  const result = await build({
    configFile: false,
    root: folder,
    logLevel: 'warn',
    publicDir: false,
    build: {
      write: false,
      // As it was written: where `light-dark()` isn't known, neither is much else of it.
      target: 'esnext',
      modulePreload: false,
      rolldownOptions: { output: { comments: false } },
    },
  });
  if (Array.isArray(result) || !('output' in result)) throw new Error('Vite built more than one page');
  const [script, ...scripts] = result.output.filter((file) => file.type === 'chunk');
  const assets = result.output.filter((file) => file.type === 'asset');
  const [style, ...styles] = assets.filter((file) => file.fileName.endsWith('.css'));
  const [page, ...others] = assets.filter((file) => !file.fileName.endsWith('.css'));
  if (!script || !style || !page || scripts.length + styles.length + others.length > 0) {
    throw new Error(
      `The page is not of one part each: ${result.output.map((file) => file.fileName).join(', ')}`,
    );
  }
  const parts = { script: script.code.trim(), style: String(style.source).trim() + styleEnd };
  const scriptTag = /<script [^>]*src="[^"]*"><\/script>/;
  const styleTag = /<link rel="stylesheet"[^>]*>/;
  const document = String(page.source)
    .replace(scriptTag, () => `<script type="module">${parts.script}</script>`)
    .replace(styleTag, () => `<style>${parts.style}</style>`);
  if (/<\/script|<!--/i.test(parts.script)) throw new Error('The script would end its own element');
  return { document, ...parts };
}

/** As a source of a content security policy. */
function hashOf(text: string): string {
  return `sha256-${createHash('sha256').update(text).digest('base64')}`;
}

/** Replaces the file in one step, because tests may be reading it; leaves one alone that is the same. */
function write(file: string, source: string): void {
  if (read(file) === source) return;
  const written = `${file}.${process.pid}`;
  writeFileSync(written, source);
  renameSync(written, file);
}

function read(file: string): string | undefined {
  try {
    return readFileSync(file, 'utf8');
  } catch {
    return undefined;
  }
}
