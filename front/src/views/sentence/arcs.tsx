// Weights as arcs over the text, from the query to the keys; the largest weights are also written under the keys

import { useLayoutEffect, useState } from "preact/hooks";
import { type Box, boxesOf, useSize } from "../../parts/boxes";
import { shade, strength } from "../../parts/colours";
import { weightText } from "../../parts/numbers";
import { Word } from "../../parts/word";
import { locked, runAgainOn, twoTexts, wholeWords } from "../../state/state";
import { hoverQuery, lockQuery, pointAt, type ShownText } from "../../state/texts";
import { isComplete, keysByWeight, progress, type Row } from "../../state/weights";
import { directionOf, type Item } from "../../trace/items";
import { words } from "../../words";
import { FAINTEST_LINE, type DrawnHead } from "./drawn-heads";
import { arc, isOneLine, type Line, linesOf } from "./routes";

const MOST_LABELS = 5; // the most weights that are written under their tokens
const SIZES = [22, 20, 18, 16]; // smaller sizes of letters, in pixels, for a text that would take two lines
const LABEL_WIDTH = 44; // the width of a weight that is written under a token, in pixels
const LEAST_THICKNESS = 0.02; // arcs of weights that would be thinner, in pixels, are not drawn
const MOST_ARCS = 400; // the most arcs that are drawn if no query is chosen
const MOST_ARCS_OF_HEAD = 100; // the most arcs that are drawn for the chosen query in one head

interface Boxes {
  queries: Map<Item, Box>;
  keys: Map<Item, Box>;
  lines: Line[];
}

export function Arcs({ drawn }: { drawn: DrawnHead[] }) {
  const [text, { width }] = useSize<HTMLDivElement>();
  const [boxes, setBoxes] = useState<Boxes>({ queries: new Map(), keys: new Map(), lines: [] });
  const { text: shownText, row, hue, fullWeight } = drawn[0];
  const { queries, keys } = shownText;
  const room = roomAbove(boxes);
  useLayoutEffect(() => {
    fitOneLine(text.current!, () => measure(text.current!, queries, keys).lines.length <= (twoTexts.value ? 2 : 1));
    setBoxes(measure(text.current!, queries, keys));
  }, [width, queries, keys, wholeWords.value, room]); // `room` is a dependency because more room above the words moves them down
  const modelRow = drawn.find(({ dashed }) => dashed)?.row;
  const labelled = row ? labelledKeys(row, keys, boxes) : new Set<number>();
  /** The weight that is written under a key; in parentheses the model's own weight, if the reader's changes have made it 0. */
  const writtenWeight = (index: number): string => {
    const weight = row?.weights[index] ?? 0;
    if (labelled.has(index)) return weightText(weight);
    const modelWeight = modelRow?.weights[index];
    return modelWeight && !weight ? `(${weightText(modelWeight)})` : "";
  };
  return (
    <div class="arcs" ref={text} style={{ "--room": `${room}px`, paddingTop: `${twoTexts.value ? 0 : room}px` }}>
      <svg aria-hidden="true">{paths(drawn, boxes, room)}</svg>
      {twoTexts.value && (
        <p class="tokens" dir={directionOf(queries)} role="listbox" aria-label={words().targetQueries} tabIndex={0}>
          {queries.map((item) => <Word key={item.positions[0]} {...wordOf(item, "query", shownText)} />)}
        </p>
      )}
      <p class="tokens" dir={directionOf(keys)} role="listbox" aria-label={twoTexts.value ? words().sourceKeys : words().queries} tabIndex={0}>
        {keys.map((item) => {
          const { index } = item;
          const masked = Boolean(row?.masked[index]);
          const weightStrength = row && !masked ? strength(row.weights[index], fullWeight) : 0;
          return (
            <Word
              key={item.positions[0]}
              {...wordOf(item, twoTexts.value ? "key" : "both", shownText)}
              shown={{ strength: weightStrength, hue, masked, written: writtenWeight(index) }}
            />
          );
        })}
      </p>
    </div>
  );
}

/** The attributes and pointer events of a word's element. `side`: whether the word is a query, a key or both. */
const wordOf = (item: Item, side: "query" | "key" | "both", { traceIndex, query }: ShownText) => ({
  item,
  "data-side": side,
  "aria-selected": side !== "key" && query === item,
  onPointerEnter: () => {
    if (side !== "key") hoverQuery(item, traceIndex);
    if (side === "key" || locked.value) pointAt(item, traceIndex);
  },
  onPointerLeave: () => pointAt(null),
  onClick: () => (side === "key" ? pointAt : lockQuery)(item, traceIndex),
});

/** If a text is a little longer than a line, use the first size of letters in SIZES with which it fits; if none fits, keep the usual size. */
function fitOneLine(text: HTMLElement, fits: () => boolean): void {
  text.classList.remove("small");
  if (fits()) return;
  text.classList.add("small");
  for (const size of SIZES) {
    text.style.setProperty("--letters", `${size}px`);
    if (fits()) return;
  }
  text.classList.remove("small");
}

function measure(text: HTMLElement, queries: Item[], keys: Item[]): Boxes {
  const boxesOfItems = (selector: string, items: Item[]) => {
    const boxes = boxesOf(text, selector);
    return new Map(items.slice(0, boxes.length).map((item, i) => [item, boxes[i]]));
  };
  const both = boxesOfItems("[data-side=both]", keys); // the words of one text, each both query and key
  const queryBoxes = both.size ? both : boxesOfItems("[data-side=query]", queries);
  const keyBoxes = both.size ? both : boxesOfItems("[data-side=key]", keys);
  const allBoxes = new Set([...queryBoxes.values(), ...keyBoxes.values()]);
  return { queries: queryBoxes, keys: keyBoxes, lines: linesOf([...allBoxes], !twoTexts.value) };
}

/** The height of the space for arcs above a line of text, in pixels. */
function roomAbove({ keys, lines }: Boxes): number {
  if (twoTexts.value) return 64;
  if (lines.length > 1) return lines.length < 4 ? 53 : 30;
  const middles = [...keys.values()].map((box) => box.middle);
  return Math.min(100, 27 + 0.17 * (Math.max(...middles, 0) - Math.min(...middles, 0)));
}

function paths(drawn: DrawnHead[], boxes: Boxes, room: number) {
  const thickest = boxes.lines.length < 3 ? 11 : 8;
  const { query, keys, key } = drawn[0].text;
  if (!query) return everyArc(drawn[0], boxes, room, thickest);
  const start = boxes.queries.get(query);
  if (!start) return null;
  return drawn.flatMap(({ row, hue, dashed }, i) => {
    if (!row) return [];
    const strongest = keysByWeight(row, keys).slice(0, MOST_ARCS_OF_HEAD);
    return inOrderOfText(strongest).map((item) => {
      const [weight, end] = [row.weights[item.index], boxes.keys.get(item)];
      if (!weight || !end || thickest * weight < LEAST_THICKNESS) return null;
      return (
        <path
          key={`${i} ${item.positions[0]}`}
          d={arc(start, end, boxes.lines, room - 2 * i)}
          stroke={shade(1, hue)}
          stroke-dasharray={dashed ? "7 5" : undefined}
          stroke-width={Math.max(0.3, thickest * weight)}
          opacity={item === key ? 1 : 0.45 + 0.4 * weight}
        />
      );
    });
  });
}

/** The arcs of the MOST_ARCS largest weights of all queries. If the pointer is on a key, only the arcs to this key are drawn, and they are opaque. */
function everyArc({ hue, grid, text: { queries, keys, key } }: DrawnHead, boxes: Boxes, room: number, thickest: number) {
  runAgainOn(progress);
  if (!grid || !isComplete(grid)) return null;
  const arcs: { weight: number; start: Box; end: Box; name: string }[] = [];
  for (const from of queries) {
    const rowStart = from.index * grid.keys.length;
    for (const to of keys) {
      const weight = grid.weights[rowStart + to.index];
      const [start, end] = [boxes.queries.get(from), boxes.keys.get(to)];
      if (weight < FAINTEST_LINE || !start || !end || (key && to !== key)) continue;
      arcs.push({ weight, start, end, name: `${from.positions[0]} ${to.positions[0]}` });
    }
  }
  arcs.sort((a, b) => b.weight - a.weight);
  return arcs.slice(0, MOST_ARCS).map(({ weight, start, end, name }) => (
    <path
      key={name}
      d={arc(start, end, boxes.lines, room)}
      stroke={shade(1, hue)}
      stroke-width={Math.max(0.3, 0.6 * thickest * weight)}
      opacity={key ? 1 : 0.15 + 0.5 * weight}
    />
  ));
}

const inOrderOfText = (items: Item[]): Item[] => items.sort((a, b) => a.index - b.index);

/** The indices of the keys under which the weight is written: those with the largest weights whose numbers do not overlap. */
function labelledKeys(row: Row, items: Item[], { keys }: Boxes): Set<number> {
  const labels: { index: number; box?: Box }[] = [];
  const overlap = (one?: Box, other?: Box) => one && other && isOneLine(one, other) && Math.abs(one.middle - other.middle) < LABEL_WIDTH;
  for (const item of keysByWeight(row, items)) {
    if (labels.length === MOST_LABELS || row.weights[item.index] < 0.0005) break;
    const box = keys.get(item);
    const hasRoom = !labels.some((other) => overlap(box, other.box));
    if (hasRoom && !row.masked[item.index]) labels.push({ index: item.index, box });
  }
  return new Set(labels.map(({ index }) => index));
}
