// Two traces of one text: the heads whose attention differs most, each with the query that moves the largest share of its
// attention to other keys

import { batch } from "@preact/signals";
import { isolated } from "../items";
import { weightText } from "../numbers";
import { chooseHead, chooseKind, headName, kindName, locked, query, trace, traceName } from "../state";
import { words } from "../words";
import { Panel, RankedList } from "./panel";

export function Difference() {
  const { second, kinds } = trace.value;
  if (!second) return null;
  const say = words();
  const several = Object.keys(kinds).length > 1;
  const output = second.output === null ? "" : ` ${say.partedOutput(second.output.toPrecision(3))}`;
  return (
    <Panel view="difference" title={say.parted(traceName(0), traceName(1))} caption={`${second.parted.length ? say.partedMost : say.partedNowhere}${output}`}>
      <RankedList lines={second.parted.map(({ kind, layer, head, query: position, moved }) => ({
        name: `${several ? `${say[kind as "encoder" | "decoder" | "cross"]} ` : ""}${headName(layer, head)} · ${isolated(trace.value[kinds[kind].queries][position].text)}`,
        number: weightText(moved),
        share: moved,
        title: say.strongestTitle,
        choose: () =>
          batch(() => {
            if (kind !== kindName.value) chooseKind(kind);
            chooseHead(layer, head);
            [query.value, locked.value] = [position, true];
          }),
      }))} />
      <p class="caption">{say.partedOthers(traceName(0))}</p>
    </Panel>
  );
}
