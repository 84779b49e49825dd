import type { Measures } from '../processes/soak-gateway.ts';
import type { GatewayPlace } from './gateway-place.ts';

const EVERY_MS = 10_000;

/** Looks now and then how much memory gateways have. */
export function watchMemory(places: readonly GatewayPlace[]): {
  mostMegabytes(): readonly number[];
  stop(): void;
} {
  const most: number[] = [];
  const look = async (): Promise<void> => {
    const measured = await Promise.all(
      places.map((place) => place.control<Measures>({ do: 'measure' }).catch(() => undefined)),
    );
    const bytes = measured.map((measures) => measures?.residentBytes ?? 0);
    most.push(Math.round(Math.max(...bytes) / 1024 / 1024));
  };
  const timer = setInterval(() => void look(), EVERY_MS);
  return { mostMegabytes: () => [...most], stop: () => clearInterval(timer) };
}
