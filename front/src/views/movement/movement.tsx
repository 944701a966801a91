// The view of the movement: how each layer changes the hidden vector of the chosen token, drawn as arrows in a plane

import { useMemo, useRef } from "preact/hooks";
import { dark, grey, hueOf, shade } from "../../parts/colours";
import { Choice, Numbers, Panel, Table } from "../../parts/panel";
import { linkedChoice } from "../../state/linked-signals";
import { chooseHead, chooseKind, head, key, keyLabels, kindName, layerNumber, layerOf, query, queryLabels, runAgainOn, trace } from "../../state/state";
import { words } from "../../words";
import { movement, movementPending, movements, moves, shownMove, type Arrow, type Move } from "./moves";
import { type NamedArrow, Picture } from "./picture";

const dividedInto = linkedChoice("moved-by", "heads", "sources", "parts");
// These arrows are grey, because every hue stands for a head. An arrow's number selects its grey, `grey(number)`, and its dashes, DASHES[number].
const [FEED_FORWARD, OTHERS, REST, BIAS] = [0, 1, 2, 3];
const DASHES = ["", "2 2.5", "7 3", "1 4"];
const [ATTENTION_HUE, SOURCE_HUE] = [75, 255]; // of the arrow for all of attention, and of the arrow of a source token
const LEAST_LENGTH = 1e-3; // shorter arrows of bias and rest are left out

/** The panel. While the arrows for a new text are computed, a copy of the old panel stays in its place and does not react to clicks. */
export function MovementView() {
  const shown = useRef<HTMLDivElement>(null);
  const pending = movementPending.value;
  const copy = useMemo(() => (pending ? shown.current?.firstElementChild?.cloneNode(true) : null), [pending]);
  if (copy) return <div key="before" class="moving" aria-busy="true" inert ref={(box) => box?.replaceChildren(copy)} />;
  return <div key="now" class="moving" ref={shown}><Movement /></div>;
}

function Movement() {
  const say = words();
  if (!movement.value) return <OtherKinds />;
  const { shares, left_out: nLeftOut, vectors: nVectors } = movement.value;
  const move = shownMove.value;
  if (!move) return <Panel view="movement" title={say.movement}><p class="caption">{say.movementToken}</p></Panel>;
  const name = queryLabels.value[query.value!];
  const arrows = arrowsOf(move);
  const [firstPercent, secondPercent] = shares.map((share) => (100 * share).toFixed(1));
  const leftOut = nLeftOut ? ` ${say.movementLeftOut(nLeftOut, nVectors)}` : "";
  return (
    <Panel
      view="movement"
      title={`${say.movement} · L${move.layer} · ${name}`}
      caption={say.movementPlane(firstPercent, secondPercent) + leftOut}
      tools={<Choice label={say.movedBy} of={dividedInto} options={[["heads", say.byHeads], ["sources", say.bySources], ["parts", say.byParts]]} />}
    >
      <div class="moved">
        <Picture move={move} arrows={arrows} />
        <div>
          <MoveTable move={move} arrows={arrows} />
          <p class="caption nearest">
            {say.nearestAfter(`L${move.layer}`)}{" "}
            {move.nearest.map(([token, angle]) => `${queryLabels.value[token]} ${angle.toFixed(1)}°`).join(" · ")}
          </p>
        </div>
      </div>
      <p class="caption">{say.movementAngles}</p>
      <Numbers
        head={[say.layer, say.vectorBefore, say.byAttention, say.byFeedForward, restName(), say.vectorAfter, say.turnedBy]}
        rows={() => moves.value!.map(({ layer, lengths: [before, after], attention, feedForward, rest, turned }) => {
          const lengths = [before, attention.length, feedForward.length, rest.length, after];
          return [`L${layer}`, ...lengths.map((length) => length.toFixed(5)), turned.toFixed(4)];
        })}
      />
    </Panel>
  );
}

/** Shown with cross-attention, for which there are no arrows: buttons that choose the self-attention of the encoder or of the decoder. */
function OtherKinds() {
  const say = words();
  const kinds = Object.keys(movements.value) as ("encoder" | "decoder")[];
  if (!kinds.length) return null;
  return (
    <Panel view="movement" title={say.movement}>
      <p class="caption">{say.movementKinds}</p>
      <div class="layers">{kinds.map((kind) => <button type="button" key={kind} onClick={() => chooseKind(kind)}>{say[kind]}</button>)}</div>
    </Panel>
  );
}

/** The name of the arrow `rest` (see `Move`): layer norms and, in the decoder of an encoder-decoder, cross-attention. */
const restName = () => (kindName.value === "decoder" && trace.value.kinds.cross ? words().byCrossAndRest : words().byRest);

/** The arrows whose sum is the layer's change of the token's vector. The reader chooses whether attention is one arrow, an arrow for each head, or an arrow for each source token. */
function arrowsOf(move: Move): NamedArrow[] {
  const say = words();
  runAgainOn(dark);
  const coloured = (arrow: Arrow, text: string, hue: number): NamedArrow => ({ ...arrow, text, colour: shade(0.85, hue), dashes: "" });
  const greyArrow = (arrow: Arrow, text: string, number: number): NamedArrow => ({ ...arrow, text, colour: grey(number), dashes: DASHES[number] });
  const { heads: nHeads } = layerOf(move.layer);
  const isShownLayer = move.layer === layerNumber.value;
  const headArrow = (arrow: Arrow): NamedArrow => {
    const { index } = arrow;
    if (index < 0) return greyArrow(arrow, say.otherHeads, OTHERS);
    const choose = () => chooseHead(move.layer, index);
    return { ...coloured(arrow, `H${index}`, hueOf(index, nHeads)), choose, isChosen: isShownLayer && index === head.value };
  };
  const sourceArrow = (arrow: Arrow): NamedArrow => {
    const { index } = arrow;
    if (index < 0) return greyArrow(arrow, say.otherSources, OTHERS);
    return { ...coloured(arrow, keyLabels.value[index], SOURCE_HUE), choose: () => (key.value = index), isChosen: index === key.value };
  };
  const arrows = {
    heads: () => move.heads.map(headArrow),
    sources: () => move.sources.map(sourceArrow),
    parts: () => [coloured(move.attention, say.byAttention, ATTENTION_HUE)],
  }[dividedInto.value]();
  const includesBias = dividedInto.value === "parts"; // the arrow of attention
  if (!includesBias && move.bias.length >= LEAST_LENGTH) arrows.push(greyArrow(move.bias, say.outputBias, BIAS));
  arrows.push(greyArrow(move.feedForward, say.byFeedForward, FEED_FORWARD));
  if (move.rest.length >= LEAST_LENGTH) arrows.push(greyArrow(move.rest, restName(), REST));
  return arrows;
}

function MoveTable({ move, arrows }: { move: Move; arrows: NamedArrow[] }) {
  const say = words();
  const nameCell = ({ text, colour, dashes, choose, isChosen }: NamedArrow) => (
    <>
      <i style={{ background: colour }} data-dashes={dashes} />
      {choose ? <button type="button" aria-pressed={isChosen} onClick={choose}>{text}</button> : text}
    </>
  );
  return (
    <div class="scroll" tabIndex={0}>
      <Table
        name="parts"
        head={[say.adds, say.length, say.angle]}
        rows={[
          [say.vectorBefore, move.lengths[0].toFixed(3), ""],
          ...arrows.map((arrow) => [nameCell(arrow), arrow.length.toFixed(3), `${arrow.angle.toFixed(1)}°`]),
          [say.vectorAfter, move.lengths[1].toFixed(3), `${move.turned.toFixed(1)}°`],
        ]}
      />
    </div>
  );
}
