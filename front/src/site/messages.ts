// What the page and the worker in which the models run say to one another

import type { Change, Effect, LateMovement, Trace } from "../data";

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

/** A model of the site; Python's site/exported.py writes it. */
export interface ModelRecord {
  name: string;
  kind: "encoder" | "causal" | "translator";
  files: Record<string, File>; // by their purpose, which text_model.py and translator_model.py name
  most: number; // the most tokens that the model reads
  ends: number[]; // the tokens with which a causal model ends its text
  difference: number; // how far a weight was from Python's when the site was made
  shape: Trace; // a trace of the model without its text and numbers
}

/** The contents of a model's files, by their purpose. */
export type ModelFiles = Record<string, Uint8Array>;

/** What the page says about its site. */
export interface Site {
  worker: File; // JavaScript
  runtime: File; // WebAssembly, compressed in zlib's format
  models: ModelRecord[];
  course: string | null; // the name of the file with the lessons, if the site has them
}

/** The first message to the worker. */
export interface Start extends Site {
  address: string; // of the site's folder
}

/** Load the model with this index early: the reader is about to type. */
export interface Prepare {
  prepare: number;
}

/** What the model is to read. */
export interface Reading {
  text: string;
  continuation?: number[]; // tokens that a causal model reads after the text
  new_tokens?: number; // that a causal model then writes at most
  temperature?: number; // at which each of them is drawn; 0 = it is the most probable one
  nucleus?: number; // it is drawn from the likeliest tokens whose probabilities together reach this number
}

/** A question to the worker. */
export interface Asked extends Reading {
  id: number;
  model: number; // its index in `models` of the site
  changes: Change[] | null; // null = a trace of the text; else what these changes do
  kind: string; // of attention that is shown
  layer: number; // that is shown
  head: number; // that is shown, or 0 for the average
}

/** Why a question has no answer. */
export type Refusal =
  | { reason: "empty" }
  | { reason: "surrogate" }
  | { reason: "long"; tokens: number }
  | { reason: "file"; file: string; error: string }
  | { reason: "error"; error: string };

/** What the worker says: how much is loaded, or the answer to a question. */
export type Said =
  | { loaded: number; total: number }
  | { id: number; trace: Trace }
  | { id: number; moves: LateMovement } // after the trace
  | { id: number; effect: Effect }
  | { id: number; refusal: Refusal };
