// The texts that are shown, one or two, each with its items; and the items that the reader has chosen in each

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
  place: number; // 0 = the text of the first trace, 1 = of the second
  all: TextItems; // the items with the hidden ones
  query: Item | null; // the chosen query; null = none, and all queries are shown
  key: Item | null;
}

const secondKey = signal<number | null>(null); // the position of the key under the pointer, if it is paired with no key of the first text

const otherItems = (side: Side, ifSame: Item[]) => (second.value?.[side] ? itemsOf(second.value[side], inWords.value) : ifSame);
const secondQueries = computed(() => otherItems(kind.value.queries, queryItems.value));
const secondKeys = computed(() => (twoTexts.value ? otherItems(kind.value.keys, keyItems.value) : secondQueries.value));
const queryPairs = computed(() => pairItems(queryItems.value, secondQueries.value));
const keyPairs = computed(() => (twoTexts.value ? pairItems(keyItems.value, secondKeys.value) : queryPairs.value));

/** Whether each item of a text is paired with the item at the same place of the other, so that weights can be subtracted. */
export const inPlace = computed(() =>
  second.value !== null && pairedInPlace(queryItems.value, secondQueries.value, queryPairs.value) && pairedInPlace(keyItems.value, secondKeys.value, keyPairs.value),
);

/** All items of each text. With two traces of one text, there are two entries with the same items. */
export const allItems = computed<TextItems[]>(() => [
  { queries: queryItems.value, keys: keyItems.value },
  ...(second.value ? [{ queries: secondQueries.value, keys: secondKeys.value }] : []),
]);

const first = computed<ShownText>(() => ({
  place: 0,
  queries: visibleQueries.value,
  keys: visibleKeys.value,
  all: allItems.value[0],
  query: queryItem.value,
  key: keyItem.value,
}));

const other = computed<ShownText>(() => {
  const chosen = (items: Item[], position: number | null, pairs: Map<Item, Item>, item: Item | null) =>
    position === null ? ((item && pairs.get(item)) ?? null) : itemAt(items, position);
  return {
    place: 1,
    queries: visible(secondQueries.value),
    keys: visible(secondKeys.value),
    all: allItems.value[1],
    query: chosen(secondQueries.value, secondQuery.value, queryPairs.value, queryItem.value),
    key: chosen(secondKeys.value, secondKey.value, keyPairs.value, keyItem.value),
  };
});

export const shownTexts = computed<ShownText[]>(() => (second.value ? [first.value, other.value] : [first.value]));

// A chosen position of the second text holds until a position of the first text is chosen.
for (const [own, of] of [[secondQuery, query], [secondKey, key]]) effect(() => void (of.value !== null && (own.value = null)));

export const pairedQuery = (item: Item): Item | undefined => queryPairs.value.get(item);
export const pairedKey = (item: Item): Item | undefined => keyPairs.value.get(item);

/** The items of both texts as rows of a table: the items of the first, each beside its pair; then those of the second without a pair. */
export function pairedRows(side: "queries" | "keys"): [Item | null, Item | null][] {
  const [items, others] = [0, 1].map((place) => allItems.value[place][side]);
  const pairs = side === "queries" ? queryPairs.value : keyPairs.value;
  const alone = others.filter((item) => !pairs.has(item));
  return [...items.map((item): [Item, Item | null] => [item, pairs.get(item) ?? null]), ...alone.map((item): [null, Item] => [null, item])];
}

/** Put the pointer on a key of a text; null = on none. */
export function pointAt(item: Item | null, place = 0): void {
  const paired = item && place ? keyPairs.value.get(item) : item;
  batch(() => {
    key.value = paired?.positions[0] ?? null;
    secondKey.value = item && !paired ? item.positions[0] : null;
  });
}

function chooseQuery(item: Item, place: number): void {
  const paired = place ? queryPairs.value.get(item) : item;
  batch(() => {
    query.value = paired?.positions[0] ?? null;
    secondQuery.value = paired ? null : item.positions[0];
  });
}

export function hoverQuery(item: Item, place = 0): void {
  if (!locked.value) chooseQuery(item, place);
}

/** Choose a query and lock it; if it is locked already, unlock it. */
export function lockQuery(item: Item, place = 0): void {
  batch(() => {
    const again = locked.value && shownTexts.value[place].query === item;
    chooseQuery(item, place);
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
