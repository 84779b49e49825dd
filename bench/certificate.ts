import { execFileSync } from 'node:child_process';
import { join } from 'node:path';

/** A self-signed certificate for `localhost`, which the proxies trust. */
export interface Certificate {
  readonly certFile: string;
  readonly keyFile: string;
}

export function makeCertificate(folder: string): Certificate {
  const certFile = join(folder, 'provider.crt');
  const keyFile = join(folder, 'provider.key');
  const args =
    'req -x509 -newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -noenc -days 2 -subj /CN=localhost ' +
    `-addext subjectAltName=DNS:localhost,IP:127.0.0.1 -keyout ${keyFile} -out ${certFile}`;
  execFileSync('openssl', args.split(' '), { stdio: 'ignore' });
  return { certFile, keyFile };
}
