export { catalogPrices } from './catalog/genai-prices.ts';
