/** What clients read of `GET /models`, by their own code: `node model-lists.mjs`, with BASE_URL and API_KEY. Prints one line of JSON. */
import { OpenRouter } from '@openrouter/sdk';
import { OpenAI } from 'openai-7';

const { BASE_URL, API_KEY } = process.env;

const openRouter = new OpenRouter({ serverURL: BASE_URL, apiKey: API_KEY });
const pages = [];
for await (const { result } of await openRouter.models.list({ limit: 2 })) pages.push(result);
const tools = await openRouter.models.list({ supportedParameters: 'tools', inputModalities: 'image' });
const endpoints = await openRouter.endpoints.list({ author: 'acme', slug: 'rich' });
const withoutKey = await new OpenRouter({ serverURL: BASE_URL }).models.list();

const openAi = new OpenAI({ baseURL: BASE_URL, apiKey: API_KEY });
const ids = [];
for await (const { id, created } of openAi.models.list()) ids.push([id, created]);

console.log(
  JSON.stringify({
    openRouter: {
      pages: pages.map(({ data }) => data.map(({ id }) => id)),
      totalCounts: pages.map(({ totalCount }) => totalCount),
      rich: pages[0].data[0],
      tools: tools.result.data.map(({ id }) => id),
      endpoints: endpoints.data,
      withoutKey: withoutKey.result.data.map(({ id }) => id),
    },
    openAi: ids,
  }),
);
