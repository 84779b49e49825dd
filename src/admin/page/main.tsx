import { render } from 'preact';

import { Api } from './api.ts';
import { App } from './app.tsx';

const root = document.getElementById('page');
if (root) render(<App api={new Api(location, document)} />, root);
