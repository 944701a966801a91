// Pairs of items of two texts: the items that stand for the same word

import type { Item } from "./items";

/**
 * Pair the items of two texts in order, and return the pairs in both directions. As many items as possible with the same text are paired
 * (the longest common subsequence, in which case does not count). Between them, as many items of one text as of the other are paired: in
 * "a red cat" and "a dark cat", "red" with "dark".
 */
export function pairItems(items: Item[], others: Item[]): Map<Item, Item> {
  if (items === others) return new Map(items.map((item) => [item, item]));
  const [texts, otherTexts] = [items, others].map((all) => all.map((item) => item.text.toLowerCase()));
  const width = others.length + 1;
  const common = new Uint16Array((items.length + 1) * width); // at [i, j]: how many items from i and from j on can be paired
  for (let i = items.length - 1; i >= 0; i--) {
    for (let j = others.length - 1; j >= 0; j--) {
      const next = (i + 1) * width + j;
      common[i * width + j] = texts[i] === otherTexts[j] ? common[next + 1] + 1 : Math.max(common[next], common[i * width + j + 1]);
    }
  }
  const pairs = new Map<Item, Item>();
  const pair = (i: number, j: number) => pairs.set(items[i], others[j]).set(others[j], items[i]);
  let [i, j, from, fromOther] = [0, 0, 0, 0]; // `from`, `fromOther`: where the unequal items before i and j begin
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
