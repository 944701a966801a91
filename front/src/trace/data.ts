// The data of a page, which Python's views/page/data.py writes as JSON: the recorded attention of a model while it reads a text

/** A token as the page shows it. A flag that is left out is false. */
export interface Token {
  text: string;
  piece?: string; // the token as it is in the tokenizer's vocabulary, "##ing"; left out if it is the same as `text`
  special?: boolean; // true = the tokenizer added the token, such as [CLS]
  joined?: boolean; // true = the token follows the previous one without a space
  word?: boolean; // true = the token has a letter or a digit and is not special
  place?: Patch | Frame; // the part of a picture or of a recording that the token stands for
}

/** A part of a picture, or of successive frames of a video. */
export interface Patch {
  image: number; // the index of the image in `Trace.images`
  n_images: number; // in a video, how many successive frames the token stands for; else 1
  thumbnail: boolean; // true = the patch belongs to a small copy of the whole picture, which the model also reads
  top: number; // the distance from the top of the image to the patch; all four numbers are in pixels
  left: number;
  height: number;
  width: number;
  seconds?: [number, number]; // of a spectrogram, the time that the patch covers; in a video, when the token's first frame begins and its last frame ends; left out if not known
}

/** A time span of a recording. */
export interface Frame {
  start: number; // `start` and `end` are in seconds from the beginning of the recording
  end: number;
}

/** An array, by its name `block`. `Trace.blocks` stores it as integers, to be multiplied by `step`; a trace from a web worker stores it as floats, in `Trace.numbers`. */
interface StoredNumbers {
  block: string;
  step: number;
}

export interface NumberArray extends StoredNumbers {
  shape: number[];
}

/** An array [heads tokens width] of queries, keys, values or hidden vectors. */
export interface Vectors extends StoredNumbers {
  heads: number;
  width: number;
}

/** One layer's attention: its queries and keys, from which the page computes the weights; or the weights, if they are not a softmax of dot products. */
export interface Layer {
  layer: number;
  heads: number;
  query?: Vectors;
  key?: Vectors;
  value?: Vectors;
  scale?: number; // scale, softcap, temperature, sinks and bias: see the formula in trace/attention.ts
  softcap?: number | null;
  temperature?: number;
  sinks?: number[] | null; // for each head, a learned score that belongs to no key
  // `numbers`: an array for each head, or one array for all heads. Its numbers are added to the scores; null = -∞. If `full`, an array has
  // a number for each query and key, query after query; else it has one for each distance key - query (in tokens), the lowest first.
  bias?: { numbers: (number | null)[][]; full?: boolean } | null;
  weights?: string; // the name of an array [heads keys queries] (see `StoredNumbers`): each weight times `Trace.units`
  mask: string | null; // the name of an array of bits [masks queries keys], 1 = the query may attend to the key; null = no weight is masked
  masks: number; // the number of masks: one for each head, or 1 for all heads; 0 = none
  output?: LayerOutput | null;
  // Only in a web worker: the hidden vectors before and after the layer, and what attention and feed-forward add to them.
  states?: Record<"before" | "attention" | "feed_forward" | "after", Vectors>;
}

/**
 * The output projection W_O of a layer, as `arrays` by name; n is the number of output dimensions that are shown.
 *
 * Always: "columns" [heads*d_value n], the first n columns of W_O. "bias" [n]: left out if the layer has none.
 * From Python: "output" [queries n], the layer's output; "lengths" [heads queries], the length of the vector that each head adds to each
 * query; "value_lengths" [heads keys], the length of value · W_O. From a web worker: "gram" [heads*d_value d_value], each head's W_O · W_Oᵀ.
 */
interface LayerOutput {
  width: number; // the number of all output dimensions
  arrays: Record<string, NumberArray>;
  weight?: NumberArray; // the whole W_O [heads*d_value width]; only in a web worker
}

export type Side = "source" | "target";

/** One kind of attention of a model ("encoder", "decoder", "cross"): which tokens are its queries and keys, and its layers. */
export interface Kind {
  queries: Side;
  keys: Side;
  note: string; // if it is not empty, the page shows the sentence `decoderNote` of words.ts
  layers: Layer[];
}

/** A token that the model generated. `position`: its position in the target; `alternatives`: the most probable tokens at this position and their probabilities. */
export interface Written {
  position: number;
  probability: number;
  alternatives: [string, number][];
}

/** A worked example: the matrices from which queries, keys and values are computed, and the output matrix. */
interface Worked {
  texts: Record<"en" | "ko", { title: string; source: string; notes: string[] }>;
  matrices: Record<string, NumberArray>; // by name: x, memory, W_q, W_k, W_v, b_q, b_k, b_v, W_o; an example may lack some
}

/** How each layer moves the hidden vectors of all tokens, as arrows in a plane; written by views/page/movement.py. */
export interface Movement {
  layers: number[];
  shares: [number, number]; // for each axis of the plane, its share of the variance of the vectors
  left_out: number; // how many vectors, of `vectors` in all, were too long to be used for the choice of the plane
  vectors: number;
  // Each array has one row of numbers for each layer and token. "before" and "after": x, y and length of the token's vector before and
  // after the layer. "turned": the angle between these vectors, in degrees. "nearest": the tokens with the most similar vectors after the
  // layer; "nearest_angles": the angles to their vectors. "heads places": x, y and length of the arrow of each head; "heads angles": the
  // angle between each arrow and the layer's whole change; "heads names": the head of each arrow, -1 = all other heads, -2 = no arrow.
  // "sources …": the same numbers for source tokens in place of heads. "parts …": for attention, its bias, feed-forward and the rest.
  arrays: Record<string, NumberArray>;
}

/** What a web worker sends after the trace: a `Movement` for each kind of self-attention. `numbers`: the floats of its arrays, by name. */
export interface LateMovement {
  movement: Record<string, Movement>;
  numbers: Record<string, Float32Array>;
}

/** The word alignments of the translations that beam search found, best translation first. The trace has the attention of the best translation only. */
export interface Alignment {
  rule: {
    layer: number; // the layer of cross-attention whose weights align words
    head: number | null; // null = the average of the layer's heads
    step: "predicts" | "reads"; // the decoder step whose weights align a target piece: "predicts" = the step that predicts the piece; "reads" = the next step, whose input is the piece
    agreement: number | null; // the fraction of target pieces that are aligned with the right source word: the word without which the piece is least probable; null = not measured
    reliable: boolean;
    by: "attention" | "erasure"; // "erasure" = weights without attention: the more log-probability a target piece loses without a source word, the larger its weight on this word
  };
  candidates: Candidate[];
}

export interface Candidate {
  text: string;
  score: number; // the log-probability divided by a power of the length (see site/translator/beam.ts); translations are sorted by it
  log_probability: number; // the natural logarithm of the probability of the whole translation, given the source
  source_words: string[];
  target_words: string[];
  source_word_of: number[]; // for each source piece, the index of its word; not for the last piece, the end-of-sentence token
  target_word_of: number[]; // for each piece of the translation, the index of its word; not for the last piece, the end-of-sentence token
  weights: number[][]; // the weights between words, [target words, source words]
  pieces: { source: string[]; target: string[]; weights: number[][] }; // weights between pieces, [target pieces, source pieces]
}

/** How a page requests the weights of a long text, which are too many to be sent at once; explore/map.py answers. */
export interface WeightMap {
  number: number; // the id of this map; the page sends it with every request
  tile: number; // the number of rows, and of columns, of cells in a tile (the part of the map that one request loads)
  // The lowest level that the server stores. (A cell of level n shows 2^n × 2^n weights.) The server computes this level and all higher
  // levels for the whole map, some rows for each request (see `computeLevels`). It computes tiles of lower levels when they are requested.
  stored: number;
}

/**
 * A second trace, which is shown beside the first: of the same text (views/page/comparison.py writes it), or of another text that the
 * same model reads. It has the same kinds, layers and heads as the first trace. The text and its tokens are left out if they are those
 * of the first trace.
 */
export interface SecondTrace extends Pick<Trace, "model" | "kinds" | "blocks" | "numbers" | "masks">, Partial<Pick<Trace, "text" | "source" | "target">> {
  differing_heads?: DifferingHead[]; // the heads whose attention differs between the two traces, the largest difference first; left out = the page computes them
  output?: number | null; // the largest absolute difference between the two models' outputs; null if a model has no output, or the shapes differ
}

/** A head whose attention differs between two traces: the query that differs most, and the share of its attention that `moved` to other keys. */
export interface DifferingHead {
  kind: string;
  layer: number;
  head: number;
  query: number;
  moved: number;
}

/** The indirect effect of a head: how much of the difference between a clean and a corrupted run its output restores, 0 = nothing, 1 = all. */
interface HeadEffect {
  kind: string;
  layer: number;
  head: number;
  effect: number;
}

export interface Trace {
  model: string;
  text: string;
  target_text: string;
  source: Token[]; // the tokens that the encoder reads
  target: Token[]; // the tokens that the decoder reads, also in a decoder-only model
  kinds: Record<string, Kind>; // the kinds of attention, by name: "encoder", "decoder", "cross"
  units: number; // the number that stands for a weight of 1 in layers that store weights: 10,000 (weights have four decimals), or 1 (not rounded)
  small: { below: number; step: number }; // stored weights (integers, see `units`) smaller than `below` are rounded to multiples of `step`
  focus: { kind: string; layer: number; head: number; query: number }; // what the page shows first
  written: Written[]; // the tokens that the model generated
  images: { block: string; height: number; width: number }[];
  spectrogram: { block: string; bands: number; frames: number } | null;
  worked?: Worked; // present if the trace is a worked example; the page then shows only the steps
  alignment?: Alignment | null; // word alignments; null if the model is no translator
  second?: SecondTrace; // in a comparison of two traces, the other trace
  effects?: HeadEffect[]; // the indirect effects of the tested heads; this trace is then the clean run, and `second` the corrupted run
  map?: WeightMap; // for a long text: the layers store no weights, and the page requests them from the server
  movement?: Record<string, Movement> | null; // a `Movement` for each kind of self-attention; null = the trace has no hidden vectors, or too many for a page
  blocks: Record<string, string>; // the arrays of the trace, by name; each is compressed (deflate) and written in base64
  numbers?: Record<string, Float32Array>; // only from a web worker, in place of `blocks`: the arrays of floats, by name
  masks?: Record<string, Uint8Array>; // only from a web worker, in place of `blocks`: the arrays of bits [masks queries keys] (see `Layer.mask`), by name
  live?: boolean; // true = the reader can type texts, on which a server or a web worker runs the model
  next?: [string, number][]; // from a server or a web worker: the texts and probabilities of the most probable next tokens
  going?: Going; // from a server or a web worker with a causal language model: what is needed to continue the text
}

/** What is needed to continue a text with a token that the reader chooses or the page samples. */
export interface Going {
  text: string; // the text that was typed, without its continuation
  continuation: number[]; // the ids of the tokens that already follow the text
  ids: number[]; // the ids of the most probable next tokens
  logits: Float32Array | string; // [vocabulary], for the next token; from a server, float32 in base64
}

/** A change to heads: "cut" = the heads do not attend from a query (null = from every query) to a key; "silence" = the head attends to no key; "sharpen" = the head's temperature is multiplied by `temperature`. */
export type Change =
  | { kind: "cut"; query: number | null; key: number; heads: string[] }
  | { kind: "silence"; head: string }
  | { kind: "sharpen"; head: string; temperature: number };

/** How changes to heads alter a run of the model. `before`, `after`: the most probable next tokens, without and with the changes. */
export interface Effect {
  output: number | null; // the largest absolute difference between the outputs with and without the changes; null = the model has no output
  heads: { head: string; token: string; moved: number }[]; // `moved`: how much of the attention of the query `token` (0 to 1) the changes move to other keys
  before: [string, number][];
  after: [string, number][];
}

/** A text, and how a model is to read and continue it. */
export interface Reading {
  text: string;
  continuation?: number[]; // for a causal language model: the ids of tokens that follow the text
  truncate?: boolean; // true = the model reads the beginning of a text that is too long; else it refuses the text
  new_tokens?: number; // the most tokens that the model generates, not counting `text` and `continuation`
  temperature?: number; // for sampling the new tokens; 0 = always the most probable token; left out = a server uses its model's settings, a web worker 0
  nucleus?: number; // sample only from the most probable tokens, as many as are needed for this sum of probabilities
}

/** A model that can run in the page. */
export interface ModelHere {
  name: string;
  kind: "encoder" | "causal" | "translator";
  difference: number; // the largest difference between a weight computed in the page and in Python, measured when the site was made
  int8: boolean; // true = the parameters of the model have 8 bits
}
