/** The official client that the helpers use: tests below `test/e2e` have another copy of it, with other classes. */
export { default as OpenAI } from 'openai';
