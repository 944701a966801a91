// What the reader has chosen, as signals, and values computed from them. A view that reads a signal is drawn again when it changes.

import { batch, computed, effect, type ReadonlySignal, signal } from "@preact/signals";
import { edge, UNCHANGED, type Changes } from "../trace/attention";
import { decodeLayer, type Decoded } from "../trace/blocks";
import type { Effect, Kind, Layer, SecondTrace, Side, Token, Trace } from "../trace/data";
import { isolated, itemsOf, type Item } from "../trace/items";
import { words } from "../words";
import { linkedFlag, linkedNumber, linkedRange, linkedSignal } from "./linked-signals";

// A text of more tokens than this is first shown with relative colours (the query's largest weight has the full colour),
// because weights on many keys are small.
export const LONG_TEXT = 64;

/** The layer and the number of a head; null = the average of the layer's heads. */
export interface HeadPlace {
  layer: number;
  head: number | null;
}

/** Read signals, so that the calling component or effect runs again when one of them changes. */
export const runAgainOn = (...signals: ReadonlySignal[]) => signals.forEach((one) => one.value);

export const trace = signal<Trace>(undefined as unknown as Trace);
export const second = signal<SecondTrace | null>(null); // the trace that is shown beside the first one; null = none
export const kindName = signal("");
export const layerNumber = signal(0);
export const head = signal<number | null>(0); // null = the average of the layer's heads
export const compared = linkedSignal<HeadPlace[]>("compared", [], (heads) => heads.map(addressOfHead).join(" "), headsNamed); // other heads that are drawn together with the shown one
export const query = signal<number | null>(null); // the position of the chosen query; null = none is chosen, and views show all queries
export const secondQuery = linkedNumber("second-query", null); // the position, in the second text, of a chosen query that has no pair in the first text; null = none
export const locked = signal(false); // true = the query stays the same when the pointer moves to another token
export const key = linkedNumber("key", null, () => keyTokens.value.length); // the position of the key under the pointer, or of one chosen by a click; null = none
// true = the views leave out special tokens or, in a text without special tokens, the first token: many heads give these
// tokens large weights when no other token matters.
export const hidden = linkedFlag("hidden");
export const wholeWords = linkedFlag("words");
export const colourScale = signal<"absolute" | "row" | "log">("absolute"); // "row" = relative: the largest weight of each query has the full colour
export const temperature = linkedRange("temperature", 1, 1 / 4, 4); // multiplies the temperature of the shown head
export const cut = linkedSignal<ReadonlySet<string>>("cut", UNCHANGED.cut, (edges) => [...edges].join(" "), edgesIn); // edges "query,key" that are cut in the shown head, and "*,key" for each masked key
export const stage = linkedNumber("step", null); // the stage that the view "steps" shows, an index of STAGE_NAMES in views/steps/stages.ts; null = the reader has chosen none
export const candidate = linkedNumber("candidate", 0, () => trace.value.alignment?.candidates.length ?? 0); // the index of the candidate translation whose alignment is shown; all other views show the attention of candidate 0, the best one
// In the alignment, the word or piece that a click chose
export const keptUnit = linkedSignal<{ side: Side; index: number } | null>("kept", null, (unit) => `${unit!.side}${unit!.index}`, (text) => {
  const [, side, index] = text.match(/^(source|target)(\d{1,6})$/) ?? [];
  return side ? { side: side as Side, index: Number(index) } : undefined;
});
export const complaint = signal(""); // the error message at the top of the page; "" = none
export const changeEffect = signal<Effect | null>(null); // the effect of the reader's changes on the model; null until the model was run with them

export const kind = computed<Kind>(() => trace.value.kinds[kindName.value]);
export const layer = computed<Layer>(() => layerOf(layerNumber.value));
/** With two traces, the layer of the second trace that is shown beside the layer of the first; null with one trace. */
export const secondLayer = computed<Layer | null>(() => secondLayerOf(layer.value.layer));
export const queryTokens = computed<Token[]>(() => trace.value[kind.value.queries]);
export const keyTokens = computed<Token[]>(() => trace.value[kind.value.keys]);
/** Whether the page requests the weights of the text from the server, because they are too many for the page. */
export const isLongText = computed(() => Boolean(trace.value.map));
/** true = each row and column of a view is a whole word; false = a token, as always in a long text. */
export const inWords = computed(() => wholeWords.value && !isLongText.value);
export const queryItems = computed<Item[]>(() => itemsOf(queryTokens.value, inWords.value));
export const keyItems = computed<Item[]>(() => (twoTexts.value ? itemsOf(keyTokens.value, inWords.value) : queryItems.value));
const labels = (tokens: Token[]) => itemsOf(tokens, false).map((item) => item.label);
/** The text of each query token. If a text occurs several times, its tokens are counted: "the:3" is the third "the". */
export const queryLabels = computed(() => labels(queryTokens.value));
export const keyLabels = computed(() => (twoTexts.value ? labels(keyTokens.value) : queryLabels.value));
export const visibleQueries = computed(() => visible(queryItems.value));
export const visibleKeys = computed(() => visible(keyItems.value));
export const twoTexts = computed(() => kind.value.queries !== kind.value.keys);
export const changes = computed<Changes>(() => ({ temperature: temperature.value, cut: cut.value }));
// true = the shown head is switched off (attends to no key) when a server or a worker runs the model
export const silenced = linkedSignal<boolean>("silenced", false, () => "1", () => trace.value.live);
/** Whether the reader has changed weights of the shown head. A silenced head changes only runs of the model, not the weights on the page. */
export const weightsChanged = computed(() => temperature.value !== 1 || cut.value.size > 0);
export const isChanged = computed(() => weightsChanged.value || silenced.value);
// `changeEffect` belongs to the changes with which the model was run. It is forgotten when the reader changes something else.
effect(() => {
  runAgainOn(changes, silenced);
  changeEffect.value = null;
});

export const anySpecial = computed(() => [...trace.value.source, ...trace.value.target].some((token) => token.special));
export const queryItem = computed<Item | null>(() => itemAt(queryItems.value, query.value));
export const keyItem = computed<Item | null>(() => itemAt(keyItems.value, key.value));

/** The query on which the pointer has rested for REST_MILLISECONDS, for views that take longer to compute than a frame of the screen. */
export const restingQuery = signal<Item | null>(null);
const REST_MILLISECONDS = 40;
effect(() => {
  const item = trace.value ? queryItem.value : null;
  const timer = setTimeout(() => (restingQuery.value = item), REST_MILLISECONDS);
  return () => clearTimeout(timer);
});

export const layerOf = (number: number): Layer => kind.value.layers.find((layer) => layer.layer === number) ?? kind.value.layers[0];
export const secondLayerOf = (number: number): Layer | null =>
  second.value?.kinds[kindName.value].layers.find((layer) => layer.layer === number) ?? null;
export function headName(layer = layerNumber.value, headIndex = head.value): string {
  if (trace.value.worked) return `${words().head.toLowerCase()} ${(headIndex ?? 0) + 1}`;
  return headIndex === null ? `L${layer} ${words().average}` : `L${layer}H${headIndex}`;
}

/** The name of a head in the address of the page: "L3H1", or "L3average". */
export const addressOfHead = ({ layer, head }: HeadPlace) => `L${layer}${head === null ? "average" : `H${head}`}`;

/** The head with a name such as "L3H1" or "L3average"; if the layer has too few heads, its last head; null if there is no such layer. */
export function headNamed(name: string): HeadPlace | null {
  const [, layerText, headText] = name.match(/^L(\d+)(?:H(\d+)|average)$/) ?? [];
  const number = Number(layerText);
  const { layer, heads } = layerOf(number);
  if (layer !== number) return null;
  return { layer, head: headText === undefined ? null : Math.min(Number(headText), heads - 1) };
}

const MOST_COMPARED = 16; // a link restores at most this many of the heads that the reader compares

function headsNamed(names: string): HeadPlace[] {
  return [...new Set(names.split(" "))].slice(0, MOST_COMPARED).map(headNamed).filter((one) => one !== null);
}

/** Read cut edges "query,key" from a text such as "7,2 *,3" (* = all queries). Positions that the shown text does not have are left out. */
function edgesIn(text: string): ReadonlySet<string> {
  const isEdge = (one: string) => {
    const [, from, to] = one.match(/^(\d{1,9}|\*),(\d{1,9})$/) ?? [];
    return Boolean(from) && (from === "*" || Number(from) < queryTokens.value.length) && Number(to) < keyTokens.value.length;
  };
  return new Set(text.split(" ").filter(isEdge));
}

const NAME_LETTERS = 24; // a text that names a trace is cut after this many letters

/** The name of a trace: its model ("1 · MiniLM") or, if the two traces have different texts, its text ("1 · the Eiffel Tower"). */
export function traceName(traceIndex: number): string {
  const [first, other] = [trace.value, second.value];
  const { model, text = "" } = traceIndex && other ? other : first;
  if (other?.text === undefined || other.text === first.text) return `${traceIndex + 1} · ${model}`;
  const shortText = text.length > NAME_LETTERS ? `${text.slice(0, NAME_LETTERS)}…` : text;
  return `${traceIndex + 1} · ${isolated(shortText)}`;
}

export const itemAt = (items: Item[], position: number | null): Item | null =>
  items.find((item) => position !== null && item.positions.includes(position)) ?? null;

/** The items that the reader has not hidden (see `hidden`). */
export function visible(items: Item[]): Item[] {
  if (!hidden.value) return items;
  if (anySpecial.value) return items.filter((item) => !item.special);
  return items.length > 1 ? items.filter((item) => item.positions[0] !== 0) : items;
}

// The arrays of a trace are decoded layer after layer (see trace/blocks.ts): first the shown layer, then all others.

export const decoded = signal<ReadonlyMap<Layer, Decoded>>(new Map());
const decoding = new Map<Layer, Promise<void>>();

/** Decode the arrays of a layer, if this has not begun before. `other`: the second trace, if the layer belongs to it. */
function decodeOnce(wanted: Layer, other?: SecondTrace): Promise<void> {
  const first = trace.value;
  const { source, target, units } = first;
  if (!decoding.has(wanted)) {
    decoding.set(
      wanted,
      decodeLayer(other ? { source, target, units, ...other } : first, wanted).then(
        (layer) => {
          if (trace.value === first) decoded.value = new Map(decoded.value).set(wanted, layer);
        },
        (error: Error) => void (complaint.value = words().undecodable(error.message)),
      ),
    );
  }
  return decoding.get(wanted)!;
}

async function decodeAll(): Promise<void> {
  const [first, other] = [trace.value, second.value];
  if (first.map) return;
  await decodeOnce(layer.value);
  if (other && secondLayer.value) await decodeOnce(secondLayer.value, other);
  for (const [name, { layers }] of Object.entries(first.kinds)) {
    for (const [i, layer] of layers.entries()) {
      if (trace.value === first) await decodeOnce(layer);
      if (trace.value === first && other && second.value === other) await decodeOnce(other.kinds[name].layers[i], other);
    }
  }
}

/** Show a trace of the same model beside the first trace; null = show the first one alone. */
export function showSecond(shown: SecondTrace | null): void {
  second.value = shown;
  void decodeAll();
}

/** Show a trace at the head and query of its `focus`. `stay`: keep the kind of attention, the head and the query's word, if the trace has them. */
export function showTrace(shown: Trace, stay = false): void {
  const before = stay ? { kind: kindName.value, layer: layerNumber.value, head: head.value, word: queryItem.value?.text } : null;
  decoding.clear();
  batch(() => {
    decoded.value = new Map();
    trace.value = shown;
    second.value = shown.second ?? null;
    kindName.value = before && shown.kinds[before.kind] ? before.kind : shown.focus.kind;
    const sameLayer = kind.value.layers.find((layer) => layer.layer === before?.layer);
    layerNumber.value = sameLayer?.layer ?? shown.focus.layer;
    const hasSameHead = before && sameLayer && (before.head === null || before.head < sameLayer.heads);
    head.value = hasSameHead ? before.head : shown.focus.head;
    const sameWord = queryTokens.value.findIndex((token) => token.text === before?.word);
    query.value = sameWord >= 0 ? sameWord : Math.min(shown.focus.query, queryTokens.value.length - 1);
    if (!stay) stage.value = null;
    compared.value = [];
    candidate.value = 0;
    keptUnit.value = null;
    key.value = null;
    locked.value = false;
    undoChanges();
    const hasSmallWeights = keyTokens.value.length > LONG_TEXT || keyTokens.value.some((token) => token.place);
    if (shown.map) colourScale.value = "log";
    else if (hasSmallWeights) colourScale.value = "row";
  });
  void decodeAll();
}

export function undoChanges(): void {
  batch(() => {
    temperature.value = UNCHANGED.temperature;
    cut.value = UNCHANGED.cut;
    silenced.value = false;
    changeEffect.value = null;
  });
}

export function chooseKind(name: string): void {
  batch(() => {
    const sameQueries = trace.value.kinds[name].queries === kind.value.queries;
    kindName.value = name;
    key.value = null;
    compared.value = [];
    if (!sameQueries) [query.value, locked.value] = [null, false];
    layerNumber.value = layer.value.layer;
    chooseHead(layerNumber.value, head.value);
  });
}

/** Show a head of layer `number`; null = the average of the layer's heads. Undoes the reader's cut edges and silencing of a head. */
export function chooseHead(number: number, headIndex: number | null): void {
  batch(() => {
    layerNumber.value = number;
    head.value = headIndex === null ? null : Math.min(headIndex, layerOf(number).heads - 1);
    cut.value = UNCHANGED.cut;
    silenced.value = false;
    changeEffect.value = null;
  });
}

/** Show the head `layers` layers and `heads` heads after the shown one (negative = before); stop at the first and the last one. */
export function moveHead(layers: number, heads: number): void {
  const numbers = kind.value.layers.map((layer) => layer.layer);
  const next = numbers[clamp(numbers.indexOf(layer.value.layer) + layers, numbers.length)];
  chooseHead(next, clamp((head.value ?? 0) + heads, layerOf(next).heads));
}

const clamp = (wanted: number, count: number) => Math.max(0, Math.min(count - 1, wanted));

export function moveQuery(by: number): void {
  const items = visibleQueries.value;
  const place = queryItem.value ? items.indexOf(queryItem.value) + by : 0;
  query.value = items[clamp(place, items.length)].positions[0];
}

/** The edges from each token of a query to each token of a key; `from` null = from all queries, so that cutting these edges masks the key. */
const edgesBetween = (from: Item | null, to: Item): string[] =>
  (from?.positions ?? [null]).flatMap((q) => to.positions.map((k) => edge(q, k)));

export const isCut = (from: Item | null, to: Item): boolean => edgesBetween(from, to).every((one) => cut.value.has(one));

/** Cut all edges from a query (null = all queries) to a key; if they are cut already, restore them. */
export function toggleCut(from: Item | null, to: Item): void {
  const edges = new Set(cut.value);
  const wasCut = isCut(from, to);
  for (const one of edgesBetween(from, to)) {
    if (wasCut) edges.delete(one);
    else edges.add(one);
  }
  cut.value = edges;
}
