// The one or two texts on the page, cut into items (tokens or whole words), and the items that the reader has chosen in each text

import { batch, computed, effect, signal } from "@preact/signals";
import type { Side } from "../trace/data";
import { itemsOf, type Item } from "../trace/items";
import { pairedInPlace, pairItems } from "../trace/pairs";
import { inWords, itemAt, key, keyItem, keyItems, kind, locked, query, queryItem, queryItems, second, secondQuery, twoTexts, visible, visibleKeys, visibleQueries } from "./state";

export interface TextItems {
  queries: Item[];
  keys: Item[];
}

export interface ShownText extends TextItems {
  traceIndex: number; // 0 = the text of the first trace, 1 = the text of the second
  all: TextItems; // all items, also those that the reader has hidden
  query: Item | null; // the chosen query; null = none, and all queries are shown
  key: Item | null;
}

const secondKey = signal<number | null>(null); // the position, in the second text, of the key under the pointer if this key has no pair in the first text; null = none

/** The items of the second text; if the second trace has no text of its own, those of the first text. */
const itemsOfSecond = (side: Side, itemsOfFirst: Item[]) => (second.value?.[side] ? itemsOf(second.value[side], inWords.value) : itemsOfFirst);
const secondQueries = computed(() => itemsOfSecond(kind.value.queries, queryItems.value));
const secondKeys = computed(() => (twoTexts.value ? itemsOfSecond(kind.value.keys, keyItems.value) : secondQueries.value));
const queryPairs = computed(() => pairItems(queryItems.value, secondQueries.value));
const keyPairs = computed(() => (twoTexts.value ? pairItems(keyItems.value, secondKeys.value) : queryPairs.value));

/** Whether each item of the first text is paired with the item of the same index in the second text, so that weights can be subtracted. */
export const inPlace = computed(() =>
  second.value !== null && pairedInPlace(queryItems.value, secondQueries.value, queryPairs.value) && pairedInPlace(keyItems.value, secondKeys.value, keyPairs.value),
);

/** All items of each text. With two traces of one text, there are two entries with the same items. */
export const allItems = computed<TextItems[]>(() => [
  { queries: queryItems.value, keys: keyItems.value },
  ...(second.value ? [{ queries: secondQueries.value, keys: secondKeys.value }] : []),
]);

const first = computed<ShownText>(() => ({
  traceIndex: 0,
  queries: visibleQueries.value,
  keys: visibleKeys.value,
  all: allItems.value[0],
  query: queryItem.value,
  key: keyItem.value,
}));

const other = computed<ShownText>(() => {
  const chosen = (items: Item[], position: number | null, pairs: Map<Item, Item>, itemOfFirst: Item | null) => {
    if (position !== null) return itemAt(items, position);
    return (itemOfFirst && pairs.get(itemOfFirst)) ?? null;
  };
  return {
    traceIndex: 1,
    queries: visible(secondQueries.value),
    keys: visible(secondKeys.value),
    all: allItems.value[1],
    query: chosen(secondQueries.value, secondQuery.value, queryPairs.value, queryItem.value),
    key: chosen(secondKeys.value, secondKey.value, keyPairs.value, keyItem.value),
  };
});

export const shownTexts = computed<ShownText[]>(() => (second.value ? [first.value, other.value] : [first.value]));

// A chosen position of the second text holds until a position of the first text is chosen.
for (const [inFirst, inSecond] of [[query, secondQuery], [key, secondKey]]) {
  effect(() => {
    if (inFirst.value !== null) inSecond.value = null;
  });
}

export const pairedQuery = (item: Item): Item | undefined => queryPairs.value.get(item);
export const pairedKey = (item: Item): Item | undefined => keyPairs.value.get(item);

/** The items of both texts as rows of a table: each item of the first text beside its pair, then the items of the second text that have no pair. */
export function pairedRows(side: "queries" | "keys"): [Item | null, Item | null][] {
  const [items, otherItems] = allItems.value.map((text) => text[side]);
  const pairs = side === "queries" ? queryPairs.value : keyPairs.value;
  const unpaired = otherItems.filter((item) => !pairs.has(item));
  return [...items.map((item): [Item, Item | null] => [item, pairs.get(item) ?? null]), ...unpaired.map((item): [null, Item] => [null, item])];
}

/** Set the key under the pointer; null = none. */
export function pointAt(item: Item | null, traceIndex = 0): void {
  const paired = item && traceIndex ? keyPairs.value.get(item) : item;
  batch(() => {
    key.value = paired?.positions[0] ?? null;
    secondKey.value = item && !paired ? item.positions[0] : null;
  });
}

export function chooseQuery(item: Item, traceIndex: number): void {
  const paired = traceIndex ? queryPairs.value.get(item) : item;
  batch(() => {
    query.value = paired?.positions[0] ?? null;
    secondQuery.value = paired ? null : item.positions[0];
  });
}

export function hoverQuery(item: Item, traceIndex = 0): void {
  if (!locked.value) chooseQuery(item, traceIndex);
}

/** Choose a query and lock it; if it is locked already, unlock it. */
export function lockQuery(item: Item, traceIndex = 0): void {
  batch(() => {
    const again = locked.value && shownTexts.value[traceIndex].query === item;
    chooseQuery(item, traceIndex);
    locked.value = !again;
  });
}

/** Unlock the query; if it is not locked, choose no query, so that views show all queries. */
export function unlockQuery(): void {
  if (locked.value) locked.value = false;
  else showAllQueries();
}

export function showAllQueries(): void {
  batch(() => {
    [query.value, secondQuery.value, locked.value] = [null, null, false];
  });
}
