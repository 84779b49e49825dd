/** What Cline's own code reads of a list of models: `node cline.mjs`, with BASE_URL and API_KEY. Prints one line of JSON. */
import { join } from 'node:path';

import {
  addLocalProvider,
  getLocalProviderModels,
  ProviderSettingsManager,
  resolveProviderConfig,
} from '@cline/core';

const { BASE_URL: baseUrl, API_KEY: apiKey, HOME } = process.env;

// A provider of Cline's that has a list like OpenRouter's, at another base URL.
const resolved = await resolveProviderConfig(
  'poolside',
  { loadPrivateOnAuth: true, loadLatestOnInit: false },
  { providerId: 'poolside', baseUrl, apiKey, modelId: 'acme/rich' },
);

const settings = new ProviderSettingsManager({ filePath: join(HOME, 'providers.json') });
await addLocalProvider(settings, {
  providerId: 'gateway',
  name: 'Gateway',
  baseUrl,
  apiKey,
  modelsSourceUrl: `${baseUrl}/models`,
});
const { models } = await getLocalProviderModels('gateway', { baseUrl, apiKey });

console.log(JSON.stringify({ known: resolved.knownModels, added: models.map(({ id }) => id) }));
process.exit();
