// The messages between the page of a site (a folder of files for any web server) and the worker that runs the models in the browser

import type { Change, Effect, LateMovement, ModelHere, Reading, Trace } from "../trace/data";

export interface File {
  name: string;
  bytes: number;
  version: string; // changes with the content and is part of the address, so that the browser does not use an older copy from its cache
}

export function addressOf({ name, version }: File, folder: string): URL {
  const address = new URL(name, folder);
  address.search = version;
  return address;
}

/** A model of the site. Python's site/exported.py writes this record. */
export interface ModelRecord extends ModelHere {
  files: Record<string, File>; // the files of the model, by purpose ("model", "tokenizer", …); Python's site/text_model.py and translator_model.py name the purposes
  max_tokens: number; // the most tokens that a text may have
  ends: number[]; // the ids of the tokens after which a causal model stops generating
  template: Trace; // a trace of the model without text and numbers; the worker fills them in
}

export type ModelFiles = Record<string, Uint8Array>;

/** What the page of a site contains about the site, as JSON: the models and the files that they need. */
export interface Site {
  worker: File; // the script of the worker
  runtime: File; // ONNX Runtime as WebAssembly, compressed in zlib's format
  models: ModelRecord[];
  course: string | null; // the name of the page with the lessons; null = the site has none
}

export interface Start extends Site {
  address: string; // the address of the site's folder
}

/** A message that the worker should load the model with this index, because the reader is about to type. */
export type Prepare = { prepare: number };

export interface Ask extends Reading {
  id: number; // the number of the question, which its answer repeats
  model: number; // the index of the model in `models` of the site
  beside: boolean; // true = a second text, which is shown beside the first one; its answer has no `moves`
  changes: Change[] | null; // null = the question is about the trace of the text; else about the effect of these changes
  kind: string; // the kind of attention that the page shows
  layer: number; // the layer that the page shows
  head: number; // the head that the page shows; 0 if it shows the average of heads
}

/** The reason why a question has no answer: no text, a text with half a surrogate pair, too many tokens, a file that did not load, or an error. */
export type Refusal =
  | { reason: "empty" }
  | { reason: "surrogate" }
  | { reason: "long"; tokens: number }
  | { reason: "file"; file: string; error: string }
  | { reason: "error"; error: string };

/** A message from the worker: the bytes loaded so far and in total, or an answer or refusal to the question with this id. */
export type FromWorker =
  | { loaded: number; total: number }
  | { id: number; trace: Trace }
  | { id: number; moves: LateMovement } // sent after the trace: how the layers move its hidden vectors
  | { id: number; effect: Effect }
  | { id: number; refusal: Refusal };
