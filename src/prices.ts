import './platform/require-node.ts';

export { catalogPrices } from './catalog/genai-prices.ts';
