// Signals whose values are in the address of the page, so that a link restores them

import { signal, type Signal } from "@preact/signals";

interface Linked {
  write: () => string; // returns the value as text; "" = the initial value, which is left out of the address
  read: (text: string) => boolean; // sets the signal to the value that a text stands for; false = the text stands for none
}

/** How to write and read each signal that is in the address, by its name there. */
export const linked = new Map<string, Linked>();

/** Return a signal whose value is in the page's address as `name`; `write` and `read` turn it into text and back. */
export function linkedSignal<Value>(name: string, first: Value, write: (value: Value) => string, read: (text: string) => Value | undefined): Signal<Value> {
  const chosen = signal(first);
  linked.set(name, {
    write: () => (chosen.value === first ? "" : write(chosen.value)),
    read: (text) => {
      const value = read(text);
      if (value === undefined) return false;
      chosen.value = value;
      return true;
    },
  });
  return chosen;
}

export const linkedChoice = <Name extends string>(name: string, ...names: [Name, ...Name[]]): Signal<Name> =>
  linkedSignal<Name>(name, names[0], String, (text) => names.find((one) => one === text));

export const linkedRange = (name: string, first: number, least: number, most: number): Signal<number> =>
  linkedSignal(name, first, String, (text) => (Number(text) >= least && Number(text) <= most ? Number(text) : undefined));

export const linkedFlag = (name: string): Signal<boolean> => linkedSignal<boolean>(name, false, () => "1", () => true);

/** Return a signal that the page keeps in its address: a whole number from 0 to below `end()`, or the initial value `first`. */
export const linkedNumber = <First extends number | null>(name: string, first: First, end = () => Infinity): Signal<number | First> =>
  linkedSignal<number | First>(name, first, String, (text) => (/^\d{1,9}$/.test(text) && Number(text) < end() ? Number(text) : undefined));
