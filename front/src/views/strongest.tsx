// The list of the query's strongest keys or, without a query, of the head's strongest pairs (query, key)

import { shownGrid, shownRow, progress } from "../grid";
import type { Item } from "../items";
import { weightText } from "../numbers";
import { colourScale, headName, key, query, queryItem, visibleKeys, visibleQueries } from "../state";
import { words } from "../words";
import { Panel, RankedList } from "./panel";

const LISTED = 8;

/** A query, a key, and the weight between them. */
interface Pair {
  from: Item;
  to: Item;
  weight: number;
}

function strongestPairs(): Pair[] {
  const found: Pair[] = [];
  const add = (pair: Pair) => {
    if (!pair.weight || (found.length === LISTED && pair.weight <= found[LISTED - 1].weight)) return;
    const place = found.findIndex((other) => other.weight < pair.weight);
    found.splice(place < 0 ? found.length : place, 0, pair);
    found.length = Math.min(found.length, LISTED);
  };
  const from = queryItem.value;
  const row = from && shownRow(from);
  if (from && row) for (const to of visibleKeys.value) add({ from, to, weight: row.weights[to.index] });
  const grid = shownGrid.value;
  if (!from && grid)
    for (const one of visibleQueries.value.slice(0, grid.done))
      for (const to of visibleKeys.value) add({ from: one, to, weight: grid.weights[one.index * grid.keys.length + to.index] });
  return found;
}

export function Strongest() {
  const say = words();
  void progress.value;
  const from = queryItem.value;
  const pairs = strongestPairs();
  // The weight whose bar is as long as the list is wide: on the relative colour scale the largest one, else 1
  const most = colourScale.value === "row" ? pairs[0]?.weight || 1 : 1;
  return (
    <Panel view="strongest" title={from ? say.strongest(from.label, headName()) : say.strongestAll(headName())}>
      <RankedList lines={pairs.map(({ from: one, to, weight }) => ({
        name: from ? to.label : `${one.label} → ${to.label}`,
        number: weightText(weight),
        share: weight / most,
        title: say.strongestTitle,
        choose: () => ([query.value, key.value] = [one.positions[0], to.positions[0]]),
      }))} />
    </Panel>
  );
}
