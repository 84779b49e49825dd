import type { Witnessed } from '../../../contract/ledger-store.ts';

/** The witnesses of a command as arguments of its script; see `is_present`. */
export function witnessTerms({ witnesses = [] }: Witnessed): string[] {
  return witnesses.map((witness) => {
    if (witness.type === 'line') return `${witness.seq} ${witness.at} ${witness.id}`;
    if (witness.type === 'payment') return `P ${witness.id}`;
    if (witness.state === 'held') return `H ${witness.hold} ${witness.id}`;
    const settled = witness.isFree ? 'F' : 'S';
    return `${witness.state === 'settled' ? settled : 'V'} ${witness.id}`;
  });
}
