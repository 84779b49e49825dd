import { BlockList, isIP } from 'node:net';

import { hostOf, portOf } from '../../http/url.ts';

/**
 * Whether `NO_PROXY` exempts an origin from the proxy, as curl reads it: host names with all of their subdomains, IP
 * addresses, CIDR blocks, or `*` for all, separated by commas or spaces. As in Go, an entry may end in a port.
 */
export function isExempt(origin: URL, noProxy: string): boolean {
  const host = hostOf(origin).replace(/\.$/, '');
  const ownPort = String(portOf(origin));
  const entries = noProxy.toLowerCase().split(/[\s,]+/);
  return entries.some((entry) => {
    if (entry === '*') return true;
    const { name, port: onlyPort } = withoutPort(entry);
    return (onlyPort === undefined || onlyPort === ownPort) && covers(name, host);
  });
}

/** An IPv6 address has a port only behind brackets. */
function withoutPort(entry: string): { readonly name: string; readonly port: string | undefined } {
  const [, bracketed, plain, port] = /^(?:\[([^\]]*)\]|([^:]*))(?::(\d+))?$/.exec(entry) ?? [];
  return { name: bracketed ?? plain ?? entry, port };
}

function covers(name: string, host: string): boolean {
  const suffix = name.replace(/^\./, '').replace(/\.$/, '');
  if (suffix === '') return false;
  const family = isIP(host);
  if (family === 0) return host === suffix || host.endsWith(`.${suffix}`);
  return inBlock(host, family === 4 ? 'ipv4' : 'ipv6', suffix);
}

function inBlock(host: string, family: 'ipv4' | 'ipv6', block: string): boolean {
  const [address = '', bits] = block.split('/');
  const mostBits = family === 'ipv4' ? 32 : 128;
  const prefix = bits === undefined ? mostBits : /^\d+$/.test(bits) ? Number(bits) : NaN;
  if (isIP(address) !== (family === 'ipv4' ? 4 : 6) || !(prefix <= mostBits)) return false;
  const blocks = new BlockList();
  blocks.addSubnet(address, prefix, family);
  return blocks.check(host, family);
}
