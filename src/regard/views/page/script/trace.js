// The page of a trace: choose a head, hover a token, read its weights.
//
// Weights are integers in units of 1/10,000 and are decoded layer by layer; drawing waits only for the layer it shows.
// There is one state object. Code that changes the state calls `refresh`, which draws the page again in the next frame.
// Tokens are elements. Lines and cells are drawn on canvases no larger than the part in view, so that a text of hundreds
// of tokens is drawn as quickly as a sentence. Text from the trace enters the page as textContent only.

const find = (id) => document.getElementById(id);
const trace = JSON.parse(find("trace").textContent);

const FAINTEST_LINE = 0.02; // with every token shown, smaller weights have no line
const LONG_TEXT = 64; // longer texts start with relative colours: the largest of many weights is small
const SMALLEST_CIRCLE_CELL = 7;
const LISTED = 8;
const THUMBNAIL = 28;
const LEAST_OUTLINED = 6; // an outline would hide smaller cells
const LEAST_LABELLED = 9;

const state = {
  kind: trace.focus.kind,
  layer: trace.focus.layer,
  head: trace.focus.head,
  query: trace.focus.query, // the token whose weights are shown; null = every token
  locked: false, // a locked token stays when the pointer moves to another
  key: null, // the key under the pointer
  cell: null, // the cell of the grid under the pointer: {query, key}
  hide: false, // hide the tokens that the tokenizer added, on which heads with nothing to do rest
  scale: "absolute", // or "row": colours relative to each query's largest weight
  circles: false,
  turned: false, // queries as columns
  cellSize: null, // null = as large as fits
  patterns: false, // the map shows whole patterns
};

// The trace

const kindOf = () => trace.kinds[state.kind];
const queries = () => trace[kindOf().queries];
const keys = () => trace[kindOf().keys];
const layerOf = (number = state.layer) => kindOf().layers.find((layer) => layer.layer === number);

// A token's text, with its number if several tokens have this text: "it:2". Text of right-to-left scripts is isolated
// (U+2068, U+2069), so that it does not reverse the text beside it.
const RIGHT_TO_LEFT = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}\p{Cf}]/u;
const isolated = (word) => (RIGHT_TO_LEFT.test(word) ? `\u2068${word}\u2069` : word);
const labels = new Map([trace.source, trace.target].map((tokens) => [tokens, numbered(tokens)]));
const labelOf = (position, tokens) => isolated(labels.get(tokens)[position]);
function numbered(tokens) {
  const [counts, seen] = [new Map(), new Map()];
  for (const { text } of tokens) counts.set(text, (counts.get(text) ?? 0) + 1);
  return tokens.map(({ text }) => {
    seen.set(text, (seen.get(text) ?? 0) + 1);
    return counts.get(text) > 1 ? `${text}:${seen.get(text)}` : text;
  });
}

const headName = (layer = state.layer, head = state.head) => `L${layer}H${head}`;

// Heads with nothing to do rest on the added tokens; where there are none, as in most language models, on the first.
const anySpecial = [...trace.source, ...trace.target].some((token) => token.special);
const isAdded = (tokens) =>
  tokens.map((token, position) => (anySpecial ? Boolean(token.special) : position === 0 && tokens.length > 1));
const positions = (tokens) => {
  const hidden = state.hide ? isAdded(tokens) : [];
  return tokens.map((_, position) => position).filter((position) => !hidden[position]);
};

// Words and numbers

const isRounded = (units) => trace.small.step > 1 && units <= trace.small.below;
const number = (units) => {
  const rounded = isRounded(units);
  return rounded && units === 0 ? "≈0" : `${rounded ? "≈" : ""}${(units / trace.units).toFixed(4)}`;
};
const pairText = (query, key, read) =>
  `${labelOf(query, queries())} → ${labelOf(key, keys())} ${read.masked(query, key) ? "masked" : number(read(query, key))}`;
const decimals = (units) => String(units / trace.units);

function precision() {
  const { below, step } = trace.small;
  if (step === 1) return "Weights to four decimals.";
  return (
    `Weights of ${decimals(below)} and more to four decimals; smaller ones, marked ≈, to the nearest ${decimals(step)}, ` +
    "so that all heads of so long a text fit into one page."
  );
}
