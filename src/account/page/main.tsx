import { Api, mountOf } from '../../page/api.ts';
import { mountSite } from './mount-site.tsx';
import { TOKEN_NAME } from './site.ts';

const root = document.getElementById('page');
if (root) {
  const { session, keys, title = 'Account' } = document.documentElement.dataset;
  const api = new Api({
    mount: mountOf(location),
    tokenName: keys === 'none' ? undefined : TOKEN_NAME,
    isSignedOut: session === 'none',
  });
  mountSite(root, { api, title, takesKeys: keys !== 'none', isDocument: true });
}
