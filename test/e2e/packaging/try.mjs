import http from 'node:http';
import { createChatCompletionsRouter } from 'chat-completions-router';
const router = createChatCompletionsRouter({
  store: process.env.CREDITS_STORE ?? 'memory:',
  providers: {},
  models: {},
});
await router.ready();
console.log('ready');
await router.close();
