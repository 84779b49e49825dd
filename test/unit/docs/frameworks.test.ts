import { readFileSync } from 'node:fs';

import { describe, expect, it } from 'vitest';

import { documentedPage } from '../../helpers/documented.ts';

/** What a row of the table is tested with. */
const PACKAGES: Readonly<Record<string, string>> = {
  Express: 'express',
  NestJS: '@nestjs/core',
  'Next.js': 'next',
  Fastify: 'fastify',
  Koa: 'koa',
  Hono: 'hono',
  h3: 'h3',
  Nitro: 'nitro',
  Nuxt: 'nuxt',
  'TanStack Start': '@tanstack/react-start',
  Astro: 'astro',
  SvelteKit: '@sveltejs/kit',
  'React Router': 'react-router',
  Feathers: '@feathersjs/feathers',
  Elysia: 'elysia',
  Hapi: '@hapi/hapi',
  AdonisJS: '@adonisjs/http-server',
  restify: 'restify',
};

const versions = Object.assign(
  {},
  ...['package.json', 'test/e2e/package.json', 'test/e2e/frameworks/package.json'].map((file) => {
    const { dependencies, devDependencies } = JSON.parse(
      readFileSync(new URL(`../../../${file}`, import.meta.url), 'utf8'),
    ) as Record<'dependencies' | 'devDependencies', Record<string, string> | undefined>;
    return { ...dependencies, ...devDependencies };
  }),
) as Readonly<Record<string, string>>;

describe('the table of docs/frameworks.md', () => {
  const page = documentedPage('frameworks.md');
  const rows = [...page.matchAll(/^\| \[([^\]]+)\]\(#([^)]+)\) +\| ([\d.]+)/gm)];

  it('has a row for each framework that is tested, and no other', () => {
    expect(rows.map(([, name = '']) => name).toSorted()).toEqual(Object.keys(PACKAGES).toSorted());
  });

  it.each(rows.map(([, name = '', anchor = '', version = '']) => [name, anchor, version]))(
    'names the version of %s that is installed, and leads to its section',
    (name, anchor, version) => {
      expect(versions[PACKAGES[name] ?? '']?.startsWith(`${version}.`)).toBe(true);
      expect(page).toContain(`\n## ${name}\n`);
      expect(anchor).toBe(name.toLowerCase().replaceAll(' ', '-').replaceAll('.', ''));
    },
  );
});
