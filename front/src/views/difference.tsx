// Two traces of one text: the heads whose attention differs most, each with the query that differs most

import { weightText } from "../parts/numbers";
import { Panel, RankedList } from "../parts/panel";
import { partedHeads, showParted } from "../state/parted-heads";
import { headName, second, trace, traceName } from "../state/state";
import { isolated } from "../trace/items";
import { words } from "../words";

const LISTED = 8;

export function Difference() {
  const { kinds } = trace.value;
  if (!second.value) return null;
  const say = words();
  const parted = partedHeads.value;
  const several = Object.keys(kinds).length > 1;
  const output = typeof second.value.output === "number" ? ` ${say.partedOutput(second.value.output.toPrecision(3))}` : "";
  const said = !parted ? say.partedUnlike : parted.length ? say.partedMost : say.partedNowhere;
  return (
    <Panel view="difference" both title={(parted ? say.parted : say.twoTexts)(traceName(0), traceName(1))} caption={said + output}>
      <RankedList lines={(parted ?? []).slice(0, LISTED).map((one) => ({
        name: `${several ? `${say[one.kind as "encoder" | "decoder" | "cross"]} ` : ""}${headName(one.layer, one.head)} · ${isolated(trace.value[kinds[one.kind].queries][one.query].text)}`,
        number: weightText(one.moved),
        share: one.moved,
        title: say.strongestTitle,
        choose: () => showParted(one),
      }))} />
      <p class="caption">{say.partedOthers(traceName(0))}</p>
    </Panel>
  );
}
