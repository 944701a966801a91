// The output step of a model's head: what W_O makes of its context, and how the heads of the layer add up

import type { Decoded } from "../blocks";
import { columnAt, contextOf, outputsOf, type HeadOutputs } from "../head-output";
import { numberText } from "../numbers";
import { chooseHead, headName, isChanged, layerNumber, queryTokens } from "../state";
import { words } from "../words";
import { productSum } from "../worked";
import { Dimensions, inSum, type Column, type Shown } from "./vectors";

const MOST_TERMS = 12; // heads in a sum that is written out
const LISTED = 16; // heads with a row of their own

/** What the step says: the length of what the head adds, unless the reader has changed it. */
export function sayHeadOutput(of: Decoded, which: number, query: number): string {
  const say = words();
  const { width, lengths } = outputsOf(of, which, query);
  const name = queryTokens.value[query].text;
  return say.sayHeadOutput(headName(), name, width) + (isChanged.value ? ` ${say.sayChangedOutput}` : ` ${say.sayOutputLength(numberText(lengths[which]))}`);
}

/** The first dimensions of what the head, the other heads and the bias add, beside the output of the model's layer. */
export function HeadOutput({ now: { of, which, at } }: { now: Shown }) {
  const say = words();
  const outputs = outputsOf(of, which, at);
  const { added, bias, sum, given, width } = outputs;
  const context = contextOf(of, which, at);
  const others = sum.map((number, i) => number - added[which][i] - (bias?.[i] ?? 0));
  const columns: Column[] = [
    { name: `H${which}`, numbers: added[which], text: (i) => productSum(context, (row) => columnAt(of, which, row, i)).text },
    { name: say.otherHeads, numbers: others, text: (i) => othersText(outputs, which, i) },
    ...(bias ? [{ name: say.outputBias, numbers: bias, text: () => "b_O" }] : []),
    { name: say.total, numbers: sum, text: (i) => [added[which][i], others[i], ...(bias ? [bias[i]] : [])].map(inSum).join(" + ") },
    ...(isChanged.value || !given ? [] : [{ name: say.layerOutput, numbers: given, text: () => say.layerReturned(layerNumber.value) }]),
  ];
  return (
    <>
      <HeadLengths lengths={outputs.lengths} which={which} />
      <Dimensions title={say.firstDimensions(sum.length, width)} columns={columns} />
    </>
  );
}

/** A number that the other heads add, as the sum over these heads. */
function othersText({ added }: HeadOutputs, which: number, place: number): string {
  const others = added.flatMap((numbers, head) => (head === which ? [] : [`${inSum(numbers[place])} (H${head})`]));
  if (others.length <= MOST_TERMS) return others.join(" + ");
  return [...others.slice(0, 3), words().moreHeads(others.length - 3)].join(" + ");
}

/** How long the vectors are that the heads of the layer add in the model, the longest first. */
function HeadLengths({ lengths, which }: { lengths: number[]; which: number }) {
  const say = words();
  const sorted = [...lengths.keys()].sort((a, b) => lengths[b] - lengths[a]).slice(0, LISTED);
  return (
    <div class="scroll" tabIndex={0}>
      <table class="dimensions lengths">
        <caption>{say.headLengths}</caption>
        <thead>
          <tr><th scope="col">{say.head}</th><th scope="col">{say.length}</th></tr>
        </thead>
        <tbody>
          {sorted.map((head) => (
            <tr key={head} class={head === which ? "near" : ""}>
              <th scope="row">
                <button type="button" aria-pressed={head === which} onClick={() => chooseHead(layerNumber.value, head)}>H{head}</button>
              </th>
              <td title={say.lengthOf(head)} style={{ "--share": `${(100 * lengths[head]) / Math.max(lengths[sorted[0]], 1e-12)}%` }}>{numberText(lengths[head])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
