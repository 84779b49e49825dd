import { spawnSync } from 'node:child_process';
import { existsSync } from 'node:fs';

/**
 * Makes sure that there is a redis-server to start: the one on the PATH, else Debian's package where
 * this user may install it, else a message that says what to do.
 */
export function provideRedis(): boolean {
  if (runs('redis-server', ['--version'])) return true;

  const prefix = process.getuid?.() === 0 ? [] : ['sudo', '-n'];
  const mayInstall =
    existsSync('/usr/bin/apt-get') &&
    !existsSync('/usr/bin/redis-server') &&
    (prefix.length === 0 || runs('sudo', ['-n', 'true']));
  if (mayInstall) {
    console.log('No redis-server on the PATH: installing the package redis-server …');
    const environment = ['env', 'DEBIAN_FRONTEND=noninteractive'];
    const install = ['install', '-y', '-q', '--no-install-recommends', 'redis-server'];
    apt([...prefix, ...environment, 'apt-get', 'update', '-q']);
    apt([...prefix, ...environment, 'apt-get', ...install]);
    // The package starts a service, which nobody asked for: tests start servers of their own, on free ports.
    spawnSync('env', [...prefix, 'service', 'redis-server', 'stop'], { stdio: 'ignore' });
    if (runs('redis-server', ['--version'])) return true;
  }
  console.error(
    'The tests need a redis-server (7.0 or later) on the PATH; they start and stop it themselves.\n' +
      '  Debian, Ubuntu:  sudo apt-get install redis-server\n' +
      '  Fedora:          sudo dnf install redis\n' +
      '  macOS:           brew install redis',
  );
  return false;
}

function runs(command: string, args: readonly string[]): boolean {
  return spawnSync(command, args, { stdio: 'ignore' }).status === 0;
}

/** Its many lines are shown only when it fails. */
function apt([command = '', ...args]: readonly string[]): void {
  const { status, stdout, stderr } = spawnSync(command, args, { encoding: 'utf8' });
  if (status !== 0) console.error(stdout, stderr);
}
