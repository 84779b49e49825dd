import { expect, it } from 'vitest';

import { tableSource, typesSource } from '../../../scripts/admin-client-source.ts';

it('has the types and the operations of the OpenAPI document', async () => {
  await expect(typesSource()).toMatchFileSnapshot('../../../src/client/admin-api.generated.ts');
  await expect(tableSource()).toMatchFileSnapshot('../../../src/client/operations.generated.ts');
});
