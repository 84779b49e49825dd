import { expect, it, vi } from 'vitest';

import type { FleetView } from '../../../src/ledger/contract/fleet-view.ts';
import { FleetHealth } from '../../../src/upstream/fleet-health.ts';
import { FleetSync } from '../../../src/upstream/fleet-sync.ts';
import { SharedConversations } from '../../../src/upstream/shared-conversations.ts';

it('asks the store for nothing more once it is closed', async () => {
  const view = {
    sync: vi.fn<FleetView['sync']>(),
    syncHealth: vi.fn<FleetView['syncHealth']>(),
    shareTurns: vi.fn<FleetView['shareTurns']>(),
  };
  const sync = new FleetSync({
    view,
    onError: () => {},
    health: new FleetHealth(),
    conversations: new SharedConversations(() => 0),
  });
  await sync.close();
  sync.used();
  for (const command of Object.values(view)) expect(command).not.toHaveBeenCalled();
});
