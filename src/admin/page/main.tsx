import { render } from 'preact';

import { Api, mountOf } from '../../page/api.ts';
import { App } from './app.tsx';

const root = document.getElementById('page');
if (root) {
  const isSignedOut = document.documentElement.dataset['session'] === 'none';
  const api = new Api({ mount: mountOf(location), tokenName: 'chat-completions-router-token', isSignedOut });
  render(<App api={api} />, root);
}
