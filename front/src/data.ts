// The data of a page: one trace, as regard's Python writes it (views/page/data.py)

export interface Token {
  text: string;
  piece?: string; // the token in the tokenizer's vocabulary, where it differs from `text`
  special?: boolean; // added by the tokenizer
  joined?: boolean; // no space before it
  word?: boolean; // has a letter or a digit, and is not special
  place?: Patch | Frame;
}

export interface Patch {
  image: number; // of `Trace.images`
  n_images: number; // successive frames of a video that the token stands for
  thumbnail: boolean;
  top: number; // in pixels, as all below
  left: number;
  height: number;
  width: number;
  seconds?: [number, number]; // when its frames begin and end, in a video whose frames per second are known
}

export interface Frame {
  start: number; // in seconds
  end: number;
}

/** Vectors [heads tokens width] as integers in a block; a number is its integer times `step`. */
export interface Vectors {
  block: string;
  step: number;
  heads: number;
  width: number;
}

/** One layer's attention: its queries and keys, or its weights if they are not a softmax of dot products. */
export interface Layer {
  layer: number;
  heads: number;
  query?: Vectors;
  key?: Vectors;
  value?: Vectors;
  scale?: number;
  softcap?: number | null;
  temperature?: number;
  sinks?: number[] | null;
  // For each head: by the key's place minus the query's, from the lowest; or in full, row after row, null = -∞.
  bias?: { numbers: (number | null)[][]; full?: boolean } | null;
  weights?: string; // block of integers, each a weight in units; from a worker, of numbers in units [heads keys queries]
  mask: string | null; // block of bits [masks queries keys], 1 = may attend
  masks: number;
  output?: LayerOutput | null;
  states?: Record<"before" | "attention" | "feed_forward" | "after", Vectors>; // hidden vectors, which only a worker has
}

/**
 * What W_O makes of the contexts: columns [heads*width n], bias [n].
 *
 * With them are output [queries n], lengths [heads queries] and value_lengths [heads keys]; or, from a worker,
 * gram [heads*width width]: W_O of each head times its transpose, from which lengths are computed.
 */
export interface LayerOutput {
  width: number; // of the output; n of its numbers are shown
  arrays: Record<string, NumberArray>;
  weight?: NumberArray; // W_O [heads*width output], which only a worker has
}

export type Side = "source" | "target";

export interface Kind {
  queries: Side;
  keys: Side;
  note: string; // not empty if a query is the token just read, as `decoderNote` of the interface's words says
  layers: Layer[];
}

export interface Written {
  position: number;
  probability: number;
  alternatives: [string, number][];
}

/** An array of integers in a block, each times `step` a number; or from a worker, of the numbers themselves. */
export interface NumberArray {
  block: string;
  step: number;
  shape: number[];
}

/** What comes before Q, K and V and after the heads in a worked example. */
export interface Worked {
  source: string;
  notes: string[];
  matrices: Record<string, NumberArray>; // x, memory, W_q, W_k, W_v, b_q, b_k, b_v, W_o, those that there are
}

/** How the layers move all tokens, as arrows in a plane; views/page/movement.py and effects/plane_movement.py write it. */
export interface Movement {
  layers: number[];
  shares: [number, number]; // of the variance, along each axis of the plane
  left_out: number; // vectors too long to count in the fit of the plane
  vectors: number;
  // before, after [layers tokens 3]; turned [layers tokens]; nearest, nearest_angles [layers tokens n];
  // of "parts", "heads" and "sources" each: places [layers tokens n 3], angles and names [layers tokens n]
  arrays: Record<string, NumberArray>;
}

/** The movement that a worker computes after it has sent a trace, by kind of self-attention, with the numbers of its blocks. */
export interface LateMovement {
  movement: Record<string, Movement>;
  numbers: Record<string, Float32Array>;
}

/** The alignments of the translations that a search found, best first; the trace is that of the first. */
export interface Alignment {
  rule: { layer: number; head: number | null; step: "predicts" | "reads"; agreement: number | null }; // head null = the average
  candidates: Candidate[];
}

export interface Candidate {
  text: string;
  score: number;
  log_probability: number; // in nats
  source_words: string[];
  target_words: string[];
  source_word_of: number[]; // for each piece except the end of the sentence
  target_word_of: number[];
  weights: number[][]; // [target words, source words]
  pieces: { source: string[]; target: string[]; weights: number[][] };
}

/** How a page asks a server for the weights of a text that is too long to be sent at once; explore/map.py answers. */
export interface WeightMap {
  number: number; // names the map in requests
  tile: number; // the rows and columns of a tile
  stored: number; // this level and higher ones are computed in turns
}

/** A second trace of the same text, which is shown beside the first; views/page/comparison.py writes it. */
export interface SecondTrace {
  model: string;
  kinds: Record<string, Kind>; // with the kinds, layers and heads of the first
  blocks: Record<string, string>;
  parted: { kind: string; layer: number; head: number; query: number; moved: number }[]; // `moved`: the share of its attention that the query moves to other keys
  output: number | null; // the largest difference of a number of the models' outputs
}

export interface Trace {
  model: string;
  text: string;
  target_text: string;
  source: Token[];
  target: Token[];
  kinds: Record<string, Kind>;
  units: number;
  small: { below: number; step: number };
  focus: { kind: string; layer: number; head: number; query: number };
  written: Written[];
  images: { block: string; height: number; width: number }[];
  spectrogram: { block: string; bands: number; frames: number } | null;
  worked?: Worked; // a worked example; the page then shows only the steps
  alignment?: Alignment | null; // of a translation
  second?: SecondTrace;
  map?: WeightMap; // for a long text: how to request weights; the layers then have no numbers
  movement?: Record<string, Movement> | null; // by kind of self-attention, where the trace has its hidden vectors
  blocks: Record<string, string>; // base64 of deflated bytes
  numbers?: Record<string, Float32Array>; // from a worker: arrays by the name of their block, which `blocks` then lacks
  masks?: Record<string, Uint8Array>; // from a worker: bits [masks queries keys] by the name of their block
  live?: boolean; // whether a server or a worker runs the model on new texts
  next?: [string, number][]; // likely next tokens with their probabilities, from a server or a worker
  going?: Going; // from a server or a worker with a causal language model: what its next token may be chosen from
}

/** The next tokens that a reader may choose from to continue a text. */
export interface Going {
  text: string; // the text that was typed; the tokens of `continuation` follow it
  continuation: number[];
  ids: number[]; // of the likely next tokens
  logits: Float32Array | string; // of the next token, for the whole vocabulary; from a server, its float32 in base64
}

/** A change to a head, as a server and a worker take it. */
export type Change =
  | { kind: "cut"; query: number; key: number; heads: string[] }
  | { kind: "silence"; head: string }
  | { kind: "sharpen"; head: string; temperature: number };

/** What changes do to a model's output, and to its other heads. */
export interface Effect {
  output: number | null; // the largest difference of a number of the output
  heads: { head: string; token: string; moved: number }[]; // `moved`: the share of its attention that the query `token` moves to other keys
  before: [string, number][];
  after: [string, number][];
}
