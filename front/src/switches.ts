// Choices of the views that the page's address names, so that a link restores them

import { signal, type Signal } from "@preact/signals";

interface Linked {
  write: () => string; // "" = the initial value, which is left out of the address
  read: (text: string) => void; // ignores a text that is not a valid value
}

/** All such signals, by the name in the address. */
export const linked = new Map<string, Linked>();

/** Return a signal whose value is part of the address of the page. */
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

/** Return a signal in the address whose value is one of `names`, at first the first name. */
export const switchOf = <Name extends string>(name: string, ...names: [Name, ...Name[]]): Signal<Name> =>
  linkedSignal<Name>(name, names[0], String, (text) => names.find((one) => one === text));

/** Return a signal in the address whose value is a number from `least` to `most`. */
export const linkedRange = (name: string, first: number, least: number, most: number): Signal<number> =>
  linkedSignal(name, first, String, (text) => (Number(text) >= least && Number(text) <= most ? Number(text) : undefined));

/** Return a signal in the address that is true or, at first, false. */
export const linkedFlag = (name: string): Signal<boolean> => linkedSignal<boolean>(name, false, () => "1", () => true);

/** Return a signal in the address whose value is a whole number from 0, or the initial value `first`. */
export const linkedNumber = <First extends number | null>(name: string, first: First): Signal<number | First> =>
  linkedSignal<number | First>(name, first, String, (text) => (/^\d{1,9}$/.test(text) ? Number(text) : undefined));
