import { describe, expect, it } from 'vitest';

import { isExempt } from '../../../src/upstream/transport/no-proxy.ts';

describe('NO_PROXY', () => {
  it.each([
    ['api.example.com', 'https://api.example.com'],
    ['API.example.COM', 'https://api.example.com'],
    ['example.com', 'https://api.example.com'],
    ['.example.com', 'https://api.example.com'],
    ['.example.com', 'https://example.com'],
    ['example.com.', 'https://example.com'],
    ['other.org, example.com', 'https://api.example.com'],
    ['other.org example.com', 'https://api.example.com'],
    ['*', 'https://api.example.com'],
    ['other.org,*', 'http://10.0.0.1'],
    ['example.com:443', 'https://example.com'],
    ['example.com:8443', 'https://api.example.com:8443'],
    ['10.0.0.1', 'http://10.0.0.1:8000'],
    ['10.0.0.0/8', 'http://10.1.2.3'],
    ['::1', 'http://[::1]:8000'],
    ['[::1]', 'http://[::1]:8000'],
    ['[::1]:8000', 'http://[::1]:8000'],
    ['fd00::/8', 'http://[fd12::1]'],
  ])('%s exempts %s', (noProxy, url) => {
    expect(isExempt(new URL(url), noProxy)).toBe(true);
  });

  it.each([
    ['', 'https://api.example.com'],
    [',', 'https://api.example.com'],
    ['.', 'https://api.example.com'],
    ['example.com', 'https://notexample.com'],
    ['example.com', 'https://example.com.evil.org'],
    ['*.example.com', 'https://api.example.com'],
    ['example.com:8443', 'https://example.com'],
    ['10.0.0.1', 'http://10.0.0.10'],
    ['0.0.1', 'http://10.0.0.1'],
    ['10.0.0.0/8', 'http://11.0.0.1'],
    ['10.0.0.0/x', 'http://10.0.0.0'],
    ['10.0.0.0/33', 'http://10.0.0.0'],
    ['[::1]:9000', 'http://[::1]:8000'],
    ['fd00::/8', 'http://10.0.0.1'],
  ])('%s does not exempt %s', (noProxy, url) => {
    expect(isExempt(new URL(url), noProxy)).toBe(false);
  });
});
