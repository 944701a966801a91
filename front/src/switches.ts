// Choices of the views that the page's address names, so that a link restores them

import { signal, type Signal } from "@preact/signals";

interface Linked {
  write: () => string; // "" = as a page begins, and not in the address
  read: (text: string) => void; // leaves a text aside that names nothing
}

/** By the name in the address. */
export const linked = new Map<string, Linked>();

/** A signal that the address names. */
export function linkedSignal<Value>(name: string, first: Value, write: (value: Value) => string, read: (text: string) => Value | undefined): Signal<Value> {
  const chosen = signal(first);
  linked.set(name, {
    write: () => (chosen.value === first ? "" : write(chosen.value)),
    read: (text) => {
      const found = read(text);
      if (found !== undefined) chosen.value = found;
    },
  });
  return chosen;
}

/** A signal that is one of some names; a page begins with the first one. */
export const switchOf = <Name extends string>(name: string, ...names: [Name, ...Name[]]): Signal<Name> =>
  linkedSignal<Name>(name, names[0], String, (text) => names.find((one) => one === text));

/** A signal that is a whole number from 0, or the one that a page begins with. */
export const linkedNumber = <First extends number | null>(name: string, first: First): Signal<number | First> =>
  linkedSignal<number | First>(name, first, String, (text) => (/^\d{1,9}$/.test(text) ? Number(text) : undefined));
