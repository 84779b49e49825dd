/**
 * Links a script: its own source with the shared parts prepended.
 *
 * Each run of a script creates all of its functions, with a reference to each local that they use, which took a tenth of a
 * request's time in Redis. So constants (locals with names in capitals) are inlined, and unused functions and comments are
 * removed.
 */
export function linkLua(source: string): string {
  return withoutUnused(withoutConstants(source.replaceAll(COMMENT, '')));
}

function withoutConstants(source: string): string {
  const values = new Map([...source.matchAll(CONSTANT)].map(([, name = '', value = '']) => [name, value]));
  return source.replaceAll(CONSTANT, '').replaceAll(CAPITALS, (name) => values.get(name) ?? name);
}

function withoutUnused(source: string): string {
  const linked = source.replaceAll(FUNCTION, (text, name: string) => {
    const uses = source.match(new RegExp(`\\b${name}\\b`, 'g')) ?? [];
    const own = text.match(new RegExp(`\\b${name}\\b`, 'g')) ?? [];
    return uses.length > own.length ? text : '';
  });
  return linked === source ? source : withoutUnused(linked);
}

const COMMENT = /^ *-- .*\n/gm;
const CONSTANT = /^local ([A-Z_]+) = (KEYS\[\d\]|'[^']*'|-?\d+)\n/gm;
/** Except in quotes, where they are the name of a command. */
const CAPITALS = /(?<!['\w])[A-Z_]{2,}(?!['\w])/g;
const FUNCTION = /^local function (\w+)\(.*\)\n(?:.*\n)*?end\n/gm;
