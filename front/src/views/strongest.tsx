// The list of the query's strongest keys or, without a query, of the head's strongest pairs (query, key)

import { weightText } from "../parts/numbers";
import { Panel, RankedList } from "../parts/panel";
import { colourScale, headName, key, query, queryItem, runAgainOn } from "../state/state";
import { keysByWeight, type Pair, progress, shownGrid, rowOf, strongestPairs } from "../state/weights";
import { words } from "../words";

const LISTED = 8;

/** The pairs that are listed: the query's strongest keys or, without a query, the head's strongest pairs. */
function listedPairs(): Pair[] {
  const [from, grid] = [queryItem.value, shownGrid.value];
  let pairs: Pair[] = [];
  if (from) {
    const row = rowOf(from);
    if (row) pairs = keysByWeight(row).slice(0, LISTED).map((to) => ({ from, to, weight: row.weights[to.index] }));
  } else if (grid) pairs = strongestPairs(grid, LISTED);
  return pairs.filter(({ weight }) => weight);
}

export function Strongest() {
  const say = words();
  runAgainOn(progress);
  const from = queryItem.value;
  const pairs = listedPairs();
  // The weight with a bar of full length: on the relative colour scale the largest weight, else 1
  const fullWeight = colourScale.value === "row" ? pairs[0]?.weight || 1 : 1;
  return (
    <Panel view="strongest" changed title={from ? say.strongest(from.label, headName()) : say.strongestAll(headName())}>
      <RankedList lines={pairs.map(({ from: one, to, weight }) => ({
        name: from ? to.label : `${one.label} → ${to.label}`,
        number: weightText(weight),
        share: weight / fullWeight,
        title: say.strongestTitle,
        choose: () => ([query.value, key.value] = [one.positions[0], to.positions[0]]),
      }))} />
    </Panel>
  );
}
