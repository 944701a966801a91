// The step "output" of a model's attention: the vector that the head adds (context · W_O), and the sum over the heads of the layer

import { numberText, sumText } from "../../parts/numbers";
import { chooseHead, headName, layerNumber, queryLabels, weightsChanged } from "../../state/state";
import { indicesOfLargest } from "../../trace/arrays";
import type { Decoded } from "../../trace/blocks";
import { words } from "../../words";
import { projectionAt, contextOf, outputsOf, type HeadOutputs } from "./head-vectors";
import type { ShownStages } from "./stages";
import { Dimensions, inSum, type VectorColumn } from "./vectors";
import { productSum } from "./worked-example";

const MOST_HEADS = 12; // a sum over at most this many heads is written out; of a longer sum, only the first three terms are written
const LISTED_HEADS = 16; // the most heads in the table of the lengths of the vectors that heads add

/** The sentence that explains the step "output". It tells the length of the vector that the head adds, if the reader has not changed the head. */
export function sayHeadOutput(layer: Decoded, head: number, query: number): string {
  const say = words();
  const { width, lengths } = outputsOf(layer, head, query);
  const name = queryLabels.value[query];
  const lengthText = weightsChanged.value ? say.sayChangedOutput : say.sayOutputLength(numberText(lengths[head]));
  return `${say.sayHeadOutput(headName(), name, width)} ${lengthText}`;
}

/** Two tables: the lengths of the vectors that the heads add, and the vectors whose sum is the output (their first dimensions). */
export function HeadOutput({ shown: { layer, head, query } }: { shown: ShownStages }) {
  const say = words();
  const outputs = outputsOf(layer, head, query);
  const { added, bias, sum, modelOutput, width } = outputs;
  const context = contextOf(layer, head, query);
  const others = sum.map((number, i) => number - added[head][i] - (bias?.[i] ?? 0)); // the sum of the other heads' vectors
  const columns: VectorColumn[] = [
    { name: `H${head}`, numbers: added[head], text: (i) => productSum(context, (row) => projectionAt(layer, head, row, i)).text },
    { name: say.otherHeads, numbers: others, text: (i) => othersText(outputs, head, i) },
  ];
  if (bias) columns.push({ name: say.outputBias, numbers: bias, text: () => "b_O" });
  const terms = columns.map(({ numbers }) => numbers);
  columns.push({ name: say.total, numbers: sum, text: (i) => terms.map((numbers) => inSum(numbers[i])).join(" + ") });
  if (modelOutput && !weightsChanged.value) columns.push({ name: say.layerOutput, numbers: modelOutput, text: () => say.layerReturned(layerNumber.value) });
  return (
    <>
      <HeadLengths lengths={outputs.lengths} shownHead={head} />
      <Dimensions title={say.firstDimensions(sum.length, width)} columns={columns} />
    </>
  );
}

/** One number of the sum of the other heads' vectors, written out: "0.5 (H0) + 0.25 (H2)". */
function othersText({ added }: HeadOutputs, shownHead: number, dimension: number): string {
  const heads = [...added.keys()].filter((head) => head !== shownHead);
  return sumText(heads.length, (i) => `${inSum(added[heads[i]][dimension])} (H${heads[i]})`, MOST_HEADS, words().moreHeads);
}

/** A table: for each head, the length of the vector that the head adds, the longest first. The reader's changes (cut edges, temperature) do not count. */
function HeadLengths({ lengths, shownHead }: { lengths: number[]; shownHead: number }) {
  const say = words();
  const longest = indicesOfLargest(lengths, LISTED_HEADS);
  return (
    <div class="scroll" tabIndex={0}>
      <table class="dimensions lengths">
        <caption>{say.headLengths}</caption>
        <thead>
          <tr><th scope="col">{say.head}</th><th scope="col">{say.length}</th></tr>
        </thead>
        <tbody>
          {longest.map((head) => (
            <tr key={head} class={head === shownHead ? "near" : ""}>
              <th scope="row">
                <button type="button" aria-pressed={head === shownHead} onClick={() => chooseHead(layerNumber.value, head)}>H{head}</button>
              </th>
              <td title={say.lengthOf(head)} style={{ "--share": `${(100 * lengths[head]) / Math.max(lengths[longest[0]], 1e-12)}%` }}>{numberText(lengths[head])}</td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
