import './platform/require-node.ts';

export {
  createWebhooks,
  type WebhookEvent,
  type WebhookOptions,
  type Webhooks,
} from './webhooks/webhooks.ts';
