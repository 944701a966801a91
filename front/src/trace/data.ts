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
  top: number; // the distance from the top of the image to the patch, in pixels; left, height and width are in pixels, too
  left: number;
  height: number;
  width: number;
  seconds?: [number, number]; // in a video, when the token's first frame begins and its last one ends; left out if the frame rate is not known
}

/** A time span of a recording. */
export interface Frame {
  start: number; // in seconds from the beginning of the recording; so is `end`
  end: number;
}

/** The name (`block`) of an array in `Trace.blocks`, where it has integers to be multiplied by `step`; or in a worker's `Trace.numbers`, which has floats. */
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
  scale?: number; // trace/attention.ts shows how scale, softcap, temperature, sinks and bias make weights of the dot products
  softcap?: number | null;
  temperature?: number;
  sinks?: number[] | null; // a learned score for each head, which belongs to no key
  // The bias that is added to the scores of each head (or one for all heads), null = -∞: if `full`, a number for each query and key, row
  // after row; else a number for each distance (key position - query position), from the lowest distance to the highest.
  bias?: { numbers: (number | null)[][]; full?: boolean } | null;
  weights?: string; // the name of an array [heads keys queries] in `Trace.blocks` or a worker's `Trace.numbers`: each weight times `Trace.units`
  mask: string | null; // the name of an array of bits [masks queries keys], 1 = the query may attend to the key; null = no weight is masked
  masks: number; // the number of masks: one for each head, or 1 for all heads; 0 = none
  output?: LayerOutput | null;
  // Only in a worker: the hidden vectors before and after the layer, and what attention and feed-forward add to them.
  states?: Record<"before" | "attention" | "feed_forward" | "after", Vectors>;
}

/**
 * The output projection of a layer, as `arrays` by name; n is the number of output dimensions that are shown.
 *
 * columns [heads*d_value n]: the first n columns of W_O; bias [n]. From Python also: output [queries n] of the layer;
 * lengths [heads queries] of the vectors that the heads add; value_lengths [heads keys] of value · W_O. From a worker,
 * instead of these: gram [heads*d_value d_value], W_O of each head times its transpose, which gives the lengths.
 */
export interface LayerOutput {
  width: number; // the number of all output dimensions
  arrays: Record<string, NumberArray>;
  weight?: NumberArray; // the whole W_O [heads*d_value width]; only in a worker
}

export type Side = "source" | "target";

/** One kind of attention of a model ("encoder", "decoder", "cross"): which tokens are its queries and keys, and its layers. */
export interface Kind {
  queries: Side;
  keys: Side;
  note: string; // if it is not empty, the page shows the sentence `decoderNote` of words.ts
  layers: Layer[];
}

/** A token that the model generated, by its position in the target; `alternatives`: the most probable tokens there and their probabilities. */
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
  // Every shape begins with [layers tokens]. "before", "after" [… 3]: the token's vector before and after the layer, as x and y in the
  // plane and its length. "turned": the angle between these two vectors. "nearest", "nearest_angles" [… n]: other tokens, and the angles
  // to their vectors. The layer's change of the vector is a sum of arrows, the "parts" (attention, feed-forward …). The arrow of attention
  // is also divided by "heads" and by "sources" (tokens). Each of the three has three arrays: "heads places" [… n 3], the x, y and length
  // of n arrows; "heads angles" [… n]; "heads names" [… n], the heads (see `Arrow.index` in views/movement/moves.ts), -2 = no arrow.
  arrays: Record<string, NumberArray>;
}

/** What a worker sends after the trace: a `Movement` for each kind of self-attention. `numbers`: the floats of its arrays, by name. */
export interface LateMovement {
  movement: Record<string, Movement>;
  numbers: Record<string, Float32Array>;
}

/** The word alignments of the translations that beam search found, best translation first. The trace has the attention of the best translation only. */
export interface Alignment {
  rule: {
    layer: number; // the layer of cross-attention whose weights align words
    head: number | null; // null = the average of the layer's heads
    step: "predicts" | "reads"; // a target piece is aligned by the weights of the decoder step that predicts the piece, or of the next step, which reads it
    agreement: number | null; // the fraction of target pieces aligned with the source word whose removal lowers the piece's probability most; null = not measured
    reliable: boolean;
    by: "attention" | "erasure"; // "erasure" = no attention weights: the weight of a source word says how much less probable the target piece becomes without this word
  };
  candidates: Candidate[];
}

export interface Candidate {
  text: string;
  score: number; // the log-probability divided by a power of the length (see site/translator/beam.ts); translations are sorted by it
  log_probability: number; // the natural logarithm of the probability of the whole translation, given the source
  source_words: string[];
  target_words: string[];
  source_word_of: number[]; // for each source piece except the last one, the end of the sentence: the index of its word
  target_word_of: number[]; // for each piece of the translation, the index of the piece's word; not for the last piece, which ends the sentence
  weights: number[][]; // the weights between words, [target words, source words]
  pieces: { source: string[]; target: string[]; weights: number[][] }; // weights between pieces, [target pieces, source pieces]
}

/** How a page requests the weights of a long text, which are too many to be sent at once; explore/map.py answers. */
export interface WeightMap {
  number: number; // the id of this map; the page sends it with every request
  tile: number; // the number of rows, and of columns, of cells in a tile (the part of the map that one request loads)
  // A cell of level n shows 2^n × 2^n weights. `stored` is a level. The server computes this level and all higher ones for the whole map,
  // some rows for each request (see `computeLevels`), and stores them. It computes tiles of lower levels when they are requested.
  stored: number;
}

/**
 * A second trace, which is shown beside the first: of the same text (views/page/comparison.py writes it), or of another text that the
 * same model reads. It has the same kinds, layers and heads as the first trace. The text and its tokens are left out if they are those
 * of the first trace.
 */
export interface SecondTrace extends Pick<Trace, "model" | "kinds" | "blocks" | "numbers" | "masks">, Partial<Pick<Trace, "text" | "source" | "target">> {
  parted?: PartedHead[]; // the heads whose attention differs between the two traces, the largest difference first; left out = the page computes them
  output?: number | null; // the largest absolute difference between the two models' outputs; null if one has none or their shapes differ
}

/** A head whose attention differs between two traces: the query that differs most, and the share of its attention that `moved` to other keys. */
export interface PartedHead {
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
  small: { below: number; step: number }; // stored weights (integers, see `units`) below `below` are rounded to multiples of `step`
  focus: { kind: string; layer: number; head: number; query: number }; // what the page shows first
  written: Written[]; // the tokens that the model generated
  images: { block: string; height: number; width: number }[];
  spectrogram: { block: string; bands: number; frames: number } | null;
  worked?: Worked; // present if the trace is a worked example; the page then shows only the steps
  alignment?: Alignment | null; // word alignments; null if the model is no translator
  second?: SecondTrace; // in a comparison of two traces, the other trace
  effects?: HeadEffect[]; // the indirect effects of the heads that were tried; this trace is then of the clean run, and `second` of the corrupted run
  map?: WeightMap; // for a long text: the layers store no weights, and the page requests them from the server
  movement?: Record<string, Movement> | null; // one for each kind of self-attention; null = the trace has no hidden vectors, or too many for a page
  blocks: Record<string, string>; // the arrays of the trace, by name; each is compressed (deflate) and written in base64
  numbers?: Record<string, Float32Array>; // only from a worker, in place of `blocks`: the arrays of floats, by name
  masks?: Record<string, Uint8Array>; // only from a worker, in place of `blocks`: the arrays of bits [masks queries keys] (see `Layer.mask`), by name
  live?: boolean; // true = the reader can type texts, on which a server or a worker runs the model
  next?: [string, number][]; // from a server or a worker: the texts and probabilities of the most probable next tokens
  going?: Going; // from a server or a worker with a causal language model: what is needed to continue the text
}

/** What is needed to continue a text with a token that the reader chooses or the page samples. */
export interface Going {
  text: string; // the text that was typed, without its continuation
  continuation: number[]; // the ids of the tokens that already follow the text
  ids: number[]; // the ids of the most probable next tokens
  logits: Float32Array | string; // [vocabulary], for the next token; from a server, float32 in base64
}

/** A change to heads: "cut" = they do not attend from a query (null = from every query) to a key; "silence" = a head attends to nothing; "sharpen" = a head's temperature is multiplied. */
export type Change =
  | { kind: "cut"; query: number | null; key: number; heads: string[] }
  | { kind: "silence"; head: string }
  | { kind: "sharpen"; head: string; temperature: number };

/** How changes to heads alter a run of the model. `before`, `after`: the most probable next tokens, without and with the changes. */
export interface Effect {
  output: number | null; // the largest absolute difference between the outputs with and without the changes; null = the model has no output
  heads: { head: string; token: string; moved: number }[]; // `moved`: the share of the attention of the query `token` that the changes move to other keys
  before: [string, number][];
  after: [string, number][];
}

/** A text, and how a model is to read and continue it. */
export interface Reading {
  text: string;
  continuation?: number[]; // for a causal language model: the ids of tokens that follow the text
  truncate?: boolean; // true = the model reads the beginning of a text that is too long; else it refuses the text
  new_tokens?: number; // the most tokens that the model generates after the text and its continuation
  temperature?: number; // for sampling the new tokens; 0 = always the most probable token; left out = a server uses its model's settings, a worker 0
  nucleus?: number; // sample only from the most probable tokens, as many as are needed for this sum of probabilities
}

/** A model that can run in the page. */
export interface ModelHere {
  name: string;
  kind: "encoder" | "causal" | "translator";
  difference: number; // the largest difference between a weight computed in the page and in Python, measured when the site was made
  int8: boolean; // true = the parameters of the model have 8 bits
}
