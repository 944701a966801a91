// Two traces of one text: the heads whose attention differs most, each with the query that differs most

import { weightText } from "../parts/numbers";
import { Panel, RankedList } from "../parts/panel";
import { differingHeads, showDifferingHead } from "../state/differing-heads";
import { headName, second, trace, traceName } from "../state/state";
import { isolated } from "../trace/items";
import { words } from "../words";

const LISTED = 8;

export function Difference() {
  const { kinds } = trace.value;
  if (!second.value) return null;
  const say = words();
  const heads = differingHeads.value;
  const several = Object.keys(kinds).length > 1;
  const output = typeof second.value.output === "number" ? ` ${say.outputsDiffer(second.value.output.toPrecision(3))}` : "";
  const caption = heads ? (heads.length ? say.differMost : say.differNowhere) : say.differUnlike;
  return (
    <Panel view="difference" both title={(heads ? say.whereDiffer : say.twoTexts)(traceName(0), traceName(1))} caption={caption + output}>
      <RankedList lines={(heads ?? []).slice(0, LISTED).map((one) => ({
        name: `${several ? `${say[one.kind as "encoder" | "decoder" | "cross"]} ` : ""}${headName(one.layer, one.head)} · ${isolated(trace.value[kinds[one.kind].queries][one.query].text)}`,
        number: weightText(one.moved),
        share: one.moved,
        title: say.strongestTitle,
        choose: () => showDifferingHead(one),
      }))} />
      <p class="caption">{say.markedViews(traceName(0))}</p>
    </Panel>
  );
}
