import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

export interface Certificate {
  readonly cert: string;
  readonly key: string;
}

/** A certificate authority of a test's own. */
export interface Authority {
  readonly ca: string;
  /** A certificate that it has signed. @param names - `DNS:localhost,IP:127.0.0.1` */
  issue(names: string): Certificate;
}

export function createAuthority(): Authority {
  const own = create('/CN=test authority', [], []);
  return {
    ca: own.cert,
    issue: (names) =>
      create(
        '/CN=test',
        [own.cert, own.key],
        ['basicConstraints=critical,CA:FALSE', `subjectAltName=${names}`],
      ),
  };
}

function create(subject: string, issuer: readonly string[], extensions: readonly string[]): Certificate {
  const folder = mkdtempSync(join(tmpdir(), 'ccr-certificates-'));
  const [certFile, keyFile] = [join(folder, 'cert.pem'), join(folder, 'key.pem')];
  try {
    const [caCert, caKey] = issuer;
    const signed =
      caCert && caKey
        ? ['-CA', write(folder, 'ca.pem', caCert), '-CAkey', write(folder, 'ca.key', caKey)]
        : [];
    execFileSync(
      'openssl',
      [
        ...'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes -days 2'.split(' '),
        ...['-subj', subject, '-keyout', keyFile, '-out', certFile],
        ...signed,
        ...extensions.flatMap((each) => ['-addext', each]),
      ],
      { stdio: 'ignore' },
    );
    return { cert: readFileSync(certFile, 'utf8'), key: readFileSync(keyFile, 'utf8') };
  } finally {
    rmSync(folder, { recursive: true });
  }
}

function write(folder: string, name: string, text: string): string {
  const file = join(folder, name);
  writeFileSync(file, text);
  return file;
}
