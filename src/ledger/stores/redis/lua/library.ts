import { createHash } from 'node:crypto';

import { admit } from './admit.ts';
import type { LuaScript } from './define-script.ts';
import { extend } from './extend.ts';
import { withoutConstants, withoutComments } from './link-lua.ts';
import { REQUEST_SCRIPT_LUA } from './requests-lua.ts';
import { settle } from './settle.ts';
import { release } from './void.ts';

/**
 * The scripts of a request as functions of a library of Redis: their shared functions are made once, when the library is
 * loaded, and not at each call.
 *
 * All names have a hash of the code. So several versions of the router can use one server, each with a library of its own.
 */
export interface Library {
  readonly source: string;
  /** Names of the functions. */
  readonly functions: ReadonlyMap<unknown, string>;
}

/** Variables at the top. Those in capitals are constants. */
const STATE = /^local ([a-z_]+(?:, [a-z_]+)*)(?: = (.+))?$/gm;
/** Lua's own functions and Redis's, where they are called. */
const BUILT_IN =
  /(?<![\w.'])(?:(?:redis|string|math|table)\.[a-z]+|next|tonumber|type|unpack|i?pairs)(?=\()/g;

let made: Library | undefined;

/** Is made once it is needed. */
export function requestLibrary(): Library {
  return (made ??= makeLibrary({ admit, extend, settle, void: release }));
}

function makeLibrary(scripts: Readonly<Record<string, Pick<LuaScript<never, unknown>, 'text'>>>): Library {
  const parts = Object.entries(scripts).map(([name, { text }]) => partsOf(name, text));
  const code = linkLibrary(parts);
  const sourceFor = (library: string): string =>
    `#!lua name=${library}\n${code}${registered(library, parts)}`;
  const library = `ccr_${createHash('sha1').update(sourceFor('')).digest('hex').slice(0, 16)}`;
  return {
    source: sourceFor(library),
    functions: new Map(Object.entries(scripts).map(([name, script]) => [script, `${library}_${name}`])),
  };
}

function registered(library: string, parts: readonly Part[]): string {
  const functions = parts.map(
    ({ name, flags }) => /* lua */ `redis.register_function{
  function_name = '${library}_${name}', flags = {${flags}},
  callback = function(keys, args)
    KEYS, ARGV = keys, args
    if not lua_redis_call then find_built_ins() end
    reset()
    return main_${name}()
  end}
`,
  );
  return functions.join('');
}

interface Part {
  readonly name: string;
  readonly flags: string;
  readonly main: string;
}

function partsOf(name: string, text: string): Part {
  const [head = '', main = ''] = text.split(REQUEST_SCRIPT_LUA);
  const flags = /^#!lua flags=(.+)$/m.exec(head)?.[1]?.split(',') ?? [];
  return { name, flags: flags.map((flag) => `'${flag}'`).join(', '), main };
}

function linkLibrary(parts: readonly Part[]): string {
  const mains = parts.map(({ name, main }) => `local function main_${name}()\n${main}end\n`);
  const code = `local KEYS, ARGV\n${REQUEST_SCRIPT_LUA}\n${mains.join('')}`;
  const linked = withoutConstants(withoutComments(code));
  const resettable = linked.replace(
    'local function main_',
    `local function reset()\n${resets(linked)}end\nlocal function main_`,
  );
  return withLocalBuiltIns(resettable);
}

/**
 * A function of Redis finds `string.format` by three look-ups, as its own table of globals is empty. So each is a local,
 * which is set by the first call: a library that is being loaded has no globals yet.
 */
function withLocalBuiltIns(code: string): string {
  const names = [...new Set(code.match(BUILT_IN))];
  const local = (name: string): string => `lua_${name.replace('.', '_')}`;
  const locals = names.map(local).join(', ');
  return /* lua */ `local ${locals}
local function find_built_ins()
  ${locals} = ${names.join(', ')}
end
${code.replaceAll(BUILT_IN, local)}
`;
}

/** Statements that give each variable of a command its first value again. A table that the last one left empty is kept. */
function resets(code: string): string {
  const [shared = ''] = code.split('local function main_');
  return [...shared.matchAll(STATE)]
    .filter(([, names = '']) => !shared.includes(`\n${names.split(',')[0]} = function`))
    .map(([, names, value = 'nil']) => {
      const isUsed = value === '{}' ? `if next(${names}) then ` : '';
      return `  ${isUsed}${names} = ${value}${isUsed && ' end'}\n`;
    })
    .join('');
}
