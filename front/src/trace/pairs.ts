// Pairs of items of two texts: the items that stand for the same word

import type { Item } from "./items";

/**
 * Pair the items (words or tokens) of two texts, and return the pairs in both directions. First, items with the same text in lower case
 * are paired: the longest common subsequence. Then the items between two of these pairs are paired in order, if their number is the same
 * in both texts: in "a red cat" and "a dark cat", "red" with "dark".
 */
export function pairItems(items: Item[], others: Item[]): Map<Item, Item> {
  if (items === others) return new Map(items.map((item) => [item, item]));
  const [texts, otherTexts] = [items, others].map((all) => all.map((item) => item.text.toLowerCase()));
  const width = others.length + 1;
  const common = new Uint16Array((items.length + 1) * width); // at [i, j]: the length of the longest common subsequence of items.slice(i) and others.slice(j)
  for (let i = items.length - 1; i >= 0; i--) {
    for (let j = others.length - 1; j >= 0; j--) {
      const next = (i + 1) * width + j;
      common[i * width + j] = texts[i] === otherTexts[j] ? common[next + 1] + 1 : Math.max(common[next], common[i * width + j + 1]);
    }
  }
  const pairs = new Map<Item, Item>();
  const pair = (i: number, j: number) => pairs.set(items[i], others[j]).set(others[j], items[i]);
  let [i, j, from, fromOther] = [0, 0, 0, 0]; // the items `from` to i - 1 of one text and `fromOther` to j - 1 of the other are not paired yet
  const pairUnequal = () => {
    if (i - from === j - fromOther) while (from < i) pair(from++, fromOther++);
  };
  while (i < items.length && j < others.length) {
    if (texts[i] === otherTexts[j]) {
      pairUnequal();
      pair(i++, j++);
      [from, fromOther] = [i, j];
    } else if (common[(i + 1) * width + j] >= common[i * width + j + 1]) i += 1;
    else j += 1;
  }
  [i, j] = [items.length, others.length];
  pairUnequal();
  return pairs;
}

/** Whether every item is paired with the item of the same index in the other text. */
export const pairedInPlace = (items: Item[], others: Item[], pairs: Map<Item, Item>): boolean =>
  items.length === others.length && items.every((item, index) => pairs.get(item) === others[index]);
