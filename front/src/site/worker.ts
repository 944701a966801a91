// The worker of a site. It loads a model when it is first needed, and answers the questions of the page one after the other.

import { env } from "onnxruntime-web/wasm";
import { decompress } from "../trace/blocks";
import { load, Refused } from "./files";
import { salientQuery } from "./salient-query";
import type { Ask, ModelFiles, ModelRecord, Prepare, FromWorker, Start } from "./messages";
import { movementOf, withoutStates } from "./movement/movement";
import type { Reader } from "./reader";
import { TextReader } from "./text-model/text-model";
import { TranslatorReader } from "./translator/translator";

const KINDS = { encoder: TextReader, causal: TextReader, translator: TranslatorReader };

/** Thrown to stop the work on a question after the page has asked a newer one. */
class Outdated extends Error {}

const say = (message: FromWorker) => postMessage(message);
const readers = new Map<number, Promise<Reader>>(); // by the index of the model in `models` of the site
let start: Start; // the first message from the page: the models and files of the site
let runtime: Promise<void> | null = null; // ends when ONNX Runtime is ready; null = it is not loaded
let turn: Promise<void> = Promise.resolve(); // ends when all questions so far are answered
let newest = 0; // the id of the last question
let newestFirst = 0; // the id of the last question about a first text: a question about a second text (`beside`) does not stop the work on this question

addEventListener("message", ({ data }: MessageEvent<Start | Prepare | Ask>) => {
  if ("address" in data) start = data;
  else if ("prepare" in data) readerOf(data.prepare).catch(() => undefined); // if loading fails, the answer to the next question gives the reason
  else {
    newest = data.id;
    if (!data.beside) newestFirst = data.id;
    turn = turn.then(() => answer(data));
  }
});

/** The model with this index among the models of the site. If loading it failed before, it is loaded again. */
function readerOf(modelIndex: number): Promise<Reader> {
  const loading = readers.get(modelIndex);
  if (loading) return loading;
  const reader = loadReader(start.models[modelIndex]);
  readers.set(modelIndex, reader);
  reader.catch(() => readers.delete(modelIndex));
  return reader;
}

async function loadReader(model: ModelRecord): Promise<Reader> {
  const { kind, files } = model;
  const tell = (loaded: number, total: number) => say({ loaded, total });
  const filesToLoad = runtime ? files : { ...files, runtime: start.runtime };
  const contents = await load(start.address, Object.values(filesToLoad), tell);
  const loaded: ModelFiles = Object.fromEntries(Object.keys(filesToLoad).map((purpose, i) => [purpose, contents[i]]));
  runtime ??= decompress(loaded.runtime).then((wasm) => {
    env.wasm.wasmBinary = wasm;
    env.wasm.numThreads = 1; // threads would need headers that a plain web server does not send
  });
  await runtime;
  return KINDS[kind].of(loaded, model);
}

async function answer({ id, model, beside, changes, kind, layer, head, ...reading }: Ask): Promise<void> {
  const throwIfOutdated = () => {
    if (id !== (beside ? newest : newestFirst)) throw new Outdated();
  };
  try {
    const { text } = reading;
    if (!text.trim()) throw new Refused({ reason: "empty" });
    if (/\p{Surrogate}/u.test(text)) throw new Refused({ reason: "surrogate" });
    const reader = await readerOf(model);
    await new Promise((resolve) => setTimeout(resolve)); // questions that the page asked while the model was loaded arrive now
    throwIfOutdated();
    if (changes) return say({ id, effect: await reader.effect!(reading, changes) });
    const trace = await reader.trace(reading, throwIfOutdated);
    const shownLayer = trace.kinds[kind]?.layers.find((one) => one.layer === layer);
    const focus = shownLayer && head < shownLayer.heads ? { kind, layer, head } : trace.focus;
    say({ id, trace: { ...withoutStates(trace), focus: { ...focus, query: await salientQuery(trace, focus) } } });
    if (!beside) say({ id, moves: await movementOf(trace, reader.projections, throwIfOutdated) });
  } catch (error) {
    if (error instanceof Outdated) return;
    say({ id, refusal: error instanceof Refused ? error.refusal : { reason: "error", error: String(error) } });
  }
}
