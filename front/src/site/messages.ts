// What the page and the worker in which the model runs say to one another

import type { Change, Effect, Trace } from "../data";

/** The files of the site beside its page. */
export interface Files {
  worker: File; // JavaScript
  model: File; // ONNX
  runtime: File; // WebAssembly, compressed in zlib's format
  tokenizer: File; // JSON: a Vocabulary
}

export interface File {
  name: string;
  bytes: number;
  version: string; // of its content, so that the browser takes no older file that it has kept
}

/** The address of a file of the site, whose folder has an address. */
export function addressOf({ name, version }: File, folder: string): URL {
  const address = new URL(name, folder);
  address.search = version;
  return address;
}

/** What the page says about its site. */
export interface Site {
  files: Files;
  most: number; // the most tokens that the model reads
  difference: number; // how far a weight was from Python's when the site was made
}

/** The first message to the worker. */
export interface Start extends Site {
  address: string; // of the site's folder
  shape: Trace; // a trace of the model without its tokens and numbers
}

/** A further message to the worker. */
export interface Asked {
  id: number;
  text: string;
  changes: Change[] | null; // null = a trace of the text; else what these changes do
  layer: number; // that is shown
  head: number; // that is shown, or 0 for the average
}

/** Why a question has no answer. */
export type Refusal =
  | { reason: "empty" }
  | { reason: "long"; tokens: number }
  | { reason: "file"; file: string; error: string }
  | { reason: "error"; error: string };

/** What the worker says: how much is loaded, or the answer to a question. */
export type Said =
  | { loaded: number; total: number }
  | { id: number; trace: Trace }
  | { id: number; effect: Effect }
  | { id: number; refusal: Refusal };
