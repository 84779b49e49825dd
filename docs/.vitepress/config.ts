import { readFileSync } from 'node:fs';

import { defineConfig } from 'vitepress';

import { linkedFile } from './linked-files.ts';
import { SIDEBAR } from './sidebar.ts';
import { slugOf } from './slug.ts';
import { summaryOf, writeTextFiles } from './text-files.ts';

/** Files of the repository that pages link to; they become part of the site. */
const files = new Set<string>();

export default defineConfig({
  title: 'chat-completions-router',
  description: 'An OpenAI-compatible router with prepaid credits that runs inside a Node app.',
  lang: 'en',
  markdown: {
    anchor: { slugify: slugOf },
    // `{account}` in a heading is text.
    attrs: { disable: true },
    config(markdown) {
      const normalize = markdown.normalizeLink.bind(markdown);
      markdown.normalizeLink = (link) => {
        const file = linkedFile(link);
        if (file === undefined) return normalize(link);
        files.add(file);
        return `/repository/${file}.txt`;
      };
    },
  },
  themeConfig: {
    search: { provider: 'local' },
    outline: { level: [2, 3] },
    sidebar: SIDEBAR.map(({ text, pages }) => ({
      text,
      items: Object.entries(pages).map(([page, title]) => ({
        text: title,
        link: page === 'index' ? '/' : `/${page}`,
      })),
    })),
    nav: [
      { text: 'Getting started', link: '/getting-started' },
      { text: 'Options', link: '/options' },
      { text: 'Errors', link: '/errors' },
    ],
  },
  transformPageData(page) {
    const summary = summaryOf(readFileSync(new URL(`../${page.filePath}`, import.meta.url), 'utf8'));
    return { description: summary };
  },
  buildEnd({ outDir }) {
    writeTextFiles(outDir, files);
  },
});
