// Two traces of one text: the heads whose attention differs most, each with the query that differs most

import { weightText } from "../parts/numbers";
import { Panel, RankedList } from "../parts/panel";
import { differingHeads, showDifferingHead } from "../state/differing-heads";
import { headName, second, trace, traceName } from "../state/state";
import type { DifferingHead } from "../trace/data";
import { isolated } from "../trace/items";
import { words } from "../words";

const LISTED = 8;

export function Difference() {
  const { kinds } = trace.value;
  if (!second.value) return null;
  const say = words();
  const heads = differingHeads.value;
  const hasSeveralKinds = Object.keys(kinds).length > 1;
  const nameOf = ({ kind, layer, head, query }: DifferingHead) => {
    const kindName = hasSeveralKinds ? `${say[kind as "encoder" | "decoder" | "cross"]} ` : "";
    const token = trace.value[kinds[kind].queries][query];
    return `${kindName}${headName(layer, head)} · ${isolated(token.text)}`;
  };
  const output = typeof second.value.output === "number" ? ` ${say.outputsDiffer(second.value.output.toPrecision(3))}` : "";
  const headsCaption = heads?.length ? say.differMost : say.differNowhere;
  const caption = heads ? headsCaption : say.differUnlike;
  return (
    <Panel view="difference" both title={(heads ? say.whereDiffer : say.twoTexts)(traceName(0), traceName(1))} caption={caption + output}>
      <RankedList lines={(heads ?? []).slice(0, LISTED).map((one) => ({
        name: nameOf(one),
        number: weightText(one.moved),
        share: one.moved,
        title: say.strongestTitle,
        choose: () => showDifferingHead(one),
      }))} />
      <p class="caption">{say.markedViews(traceName(0))}</p>
    </Panel>
  );
}
