/**
 * Throws where Node is too old: the first import of each public entry.
 *
 * Node links all modules before it evaluates the first one, so no module may import by its name what an old Node
 * doesn't have: they import the namespace (`import * as zlib from 'node:zlib'`). http-proxy-middleware does import
 * `styleText`: before Node 20.12, the router's entries fail with that.
 */
import { unsupportedNode } from './node-version.ts';

const problem = unsupportedNode(process.versions);
if (problem !== undefined) throw new Error(`chat-completions-router ${problem}`);
