// The page of a trace: choose a head, hover a token, read its weights.
//
// Weights are whole units of 1/10,000 and come a layer at a time; nothing here waits for a layer that is not shown.
// There is one state. Whatever changes it calls `refresh`, which draws all of it again in the next frame. Tokens are
// elements, weights are not: lines and cells are drawn on canvases no larger than what is in view, so that a text of
// hundreds of tokens is as quick as a sentence. Text from the trace reaches the page as textContent only.

const find = (id) => document.getElementById(id);
const trace = JSON.parse(find("trace").textContent);

const FAINTEST_LINE = 0.02; // when every token's lines are shown at once, those of smaller weights are left out
const LONG_TEXT = 64; // tokens from which on colours are relative at first: the largest of many weights is small
const SMALLEST_CIRCLE_CELL = 7;
const LISTED = 8;
const THUMBNAIL = 28;
const LEAST_OUTLINED = 6; // a line around cells smaller than this would hide them
const LEAST_LABELLED = 9;

const state = {
  kind: trace.focus.kind,
  layer: trace.focus.layer,
  head: trace.focus.head,
  query: trace.focus.query, // the token whose look is shown; null = every token's
  locked: false, // hovering changes the token only while it is not locked
  key: null, // the key that is pointed at
  cell: null, // the cell of the grid that is pointed at: {query, key}
  hide: false, // tokens that the tokenizer added, which heads with nothing to do look at
  scale: "absolute", // or "row": colours relative to each token's largest weight
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

// A token's text, with its number where there are several of the kind: "it:2". What is written from right to left is
// isolated (U+2068, U+2069), so that it does not turn round what stands beside it.
const TURNING = /[\p{Script=Hebrew}\p{Script=Arabic}\p{Script=Syriac}\p{Script=Thaana}\p{Script=Nko}\p{Script=Adlam}\p{Cf}]/u;
const isolated = (word) => (TURNING.test(word) ? `\u2068${word}\u2069` : word);
const named = new Map([trace.source, trace.target].map((tokens) => [tokens, numbered(tokens)]));
const called = (position, tokens) => isolated(named.get(tokens)[position]);
function numbered(tokens) {
  const [counts, met] = [new Map(), new Map()];
  for (const { text } of tokens) counts.set(text, (counts.get(text) ?? 0) + 1);
  return tokens.map(({ text }) => {
    met.set(text, (met.get(text) ?? 0) + 1);
    return counts.get(text) > 1 ? `${text}:${met.get(text)}` : text;
  });
}

const headName = (layer = state.layer, head = state.head) => `L${layer}H${head}`;

// Without added tokens, as in most language models, it is the first token that is looked at when nothing is.
const anySpecial = [...trace.source, ...trace.target].some((token) => token.special);
const added = (tokens) =>
  tokens.map((token, position) => (anySpecial ? Boolean(token.special) : position === 0 && tokens.length > 1));
const positions = (tokens) => {
  const hidden = state.hide ? added(tokens) : [];
  return tokens.map((_, position) => position).filter((position) => !hidden[position]);
};

// Words and numbers

const isRounded = (units) => trace.small.step > 1 && units <= trace.small.below;
const number = (units) => {
  const rounded = isRounded(units);
  return rounded && units === 0 ? "≈0" : `${rounded ? "≈" : ""}${(units / trace.units).toFixed(4)}`;
};
const spoken = (query, key, read) =>
  `${called(query, queries())} → ${called(key, keys())} ${read.masked(query, key) ? "masked" : number(read(query, key))}`;
const decimals = (units) => String(units / trace.units);

function precision() {
  const { below, step } = trace.small;
  if (step === 1) return "Weights to four decimals.";
  return (
    `Weights of ${decimals(below)} and more to four decimals; smaller ones, marked ≈, to the nearest ${decimals(step)}, ` +
    "so that all heads of so long a text fit into one page."
  );
}
