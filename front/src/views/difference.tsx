// Two traces of one text: the heads whose attention differs most, each with the query that moves the largest share of its
// attention to other keys

import { weightText } from "../parts/numbers";
import { Panel, RankedList } from "../parts/panel";
import { showParted } from "../state/parted-heads";
import { headName, trace, traceName } from "../state/state";
import { isolated } from "../trace/items";
import { words } from "../words";

const LISTED = 8;

export function Difference() {
  const { second, kinds } = trace.value;
  if (!second) return null;
  const say = words();
  const several = Object.keys(kinds).length > 1;
  const output = second.output === null ? "" : ` ${say.partedOutput(second.output.toPrecision(3))}`;
  return (
    <Panel view="difference" both title={say.parted(traceName(0), traceName(1))} caption={`${second.parted.length ? say.partedMost : say.partedNowhere}${output}`}>
      <RankedList lines={second.parted.slice(0, LISTED).map((one) => ({
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
