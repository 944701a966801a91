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
const ATTENTION = 75; // the hue of the arrow for all of attention

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
  const of = movement.value;
  if (!of) return <OtherKinds />;
  const move = shownMove.value;
  if (!move) return <Panel view="movement" title={say.movement}><p class="caption">{say.movementToken}</p></Panel>;
  const name = queryLabels.value[query.value!];
  const arrows = arrowsOf(move);
  const [first, second] = of.shares.map((share) => (100 * share).toFixed(1));
  return (
    <Panel
      view="movement"
      title={`${say.movement} · L${move.layer} · ${name}`}
      caption={say.movementPlane(first, second) + (of.left_out ? ` ${say.movementLeftOut(of.left_out, of.vectors)}` : "")}
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
        rows={() => moves.value!.map((one) => [
          `L${one.layer}`,
          ...[one.lengths[0], one.attention.length, one.feedForward.length, one.rest.length, one.lengths[1]].map((number) => number.toFixed(5)),
          one.turned.toFixed(4),
        ])}
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
  const named = (arrow: Arrow, text: string, hue: number | null, faintness = 0): NamedArrow => ({ ...arrow, text, colour: hue === null ? grey(faintness) : shade(0.85, hue), dashes: DASHES[faintness] });
  const others = (arrow: Arrow) => named(arrow, dividedInto.value === "heads" ? say.otherHeads : say.otherSources, null, OTHERS);
  const heads = layerOf(move.layer).heads;
  const attention =
    dividedInto.value === "parts"
      ? [named(move.attention, say.byAttention, ATTENTION)]
      : dividedInto.value === "heads"
        ? move.heads.map((arrow) =>
            arrow.index < 0 ? others(arrow) : { ...named(arrow, `H${arrow.index}`, hueOf(arrow.index, heads)), choose: () => chooseHead(move.layer, arrow.index), near: arrow.index === head.value && move.layer === layerNumber.value },
          )
        : move.sources.map((arrow) =>
            arrow.index < 0 ? others(arrow) : { ...named(arrow, keyLabels.value[arrow.index], 255), choose: () => (key.value = arrow.index), near: arrow.index === key.value },
          );
  const bias = dividedInto.value === "parts" || move.bias.length < 1e-3 ? [] : [named(move.bias, say.outputBias, null, BIAS)];
  const rest = move.rest.length < 1e-3 ? [] : [named(move.rest, restName(), null, REST)];
  return [...attention, ...bias, named(move.feedForward, say.byFeedForward, null, FEED_FORWARD), ...rest];
}

function MoveTable({ move, arrows }: { move: Move; arrows: NamedArrow[] }) {
  const say = words();
  const named = ({ text, colour, dashes, choose, near }: NamedArrow) => (
    <>
      <i style={{ background: colour }} data-dashes={dashes} />
      {choose ? <button type="button" aria-pressed={near} onClick={choose}>{text}</button> : text}
    </>
  );
  return (
    <div class="scroll" tabIndex={0}>
      <Table
        name="parts"
        head={[say.adds, say.length, say.angle]}
        rows={[
          [say.vectorBefore, move.lengths[0].toFixed(3), ""],
          ...arrows.map((arrow) => [named(arrow), arrow.length.toFixed(3), `${arrow.angle.toFixed(1)}°`]),
          [say.vectorAfter, move.lengths[1].toFixed(3), `${move.turned.toFixed(1)}°`],
        ]}
      />
    </div>
  );
}
