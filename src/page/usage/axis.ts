/** Round integers from 0 to at least `max`, evenly spaced. */
export function ticks(max: number): number[] {
  if (max <= 0) return [0];
  const rough = max / 5;
  const power = 10 ** Math.max(0, Math.floor(Math.log10(rough)));
  const steps = power < 10 ? [1, 2, 5, 10] : [1, 2, 2.5, 5, 10];
  const step = (steps.find((times) => times * power >= rough) ?? 10) * power;
  const ticks = [0];
  while ((ticks.at(-1) ?? 0) < max) ticks.push(ticks.length * step);
  return ticks;
}
