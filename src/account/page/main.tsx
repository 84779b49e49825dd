import { Api, mountOf } from '../../page/api.ts';
import { mountSite } from './mount-site.tsx';

const root = document.getElementById('page');
if (root) {
  const { session, keys, title = 'Account' } = document.documentElement.dataset;
  const api = new Api({
    mount: mountOf(location),
    tokenName: 'chat-completions-router-account-key',
    isSignedOut: session === 'none',
  });
  mountSite(root, { api, title, takesKeys: keys !== 'none', isDocument: true });
}
