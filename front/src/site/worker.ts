// The worker of a site: it loads the model when it is started, and answers the page's questions one after another

import { changedBy, effectOf, type Answer } from "./effect";
import { inflated, load, Refused } from "./files";
import { salientQuery } from "./focus";
import type { Asked, Refusal, Said, Start } from "./messages";
import { Model, type Changed } from "./model";
import { escaped, tokensOf } from "./tokens";
import { WordPiece, type Vocabulary } from "./wordpiece";

/** The model and its tokenizer, loaded. */
interface Reader {
  model: Model;
  tokenizer: WordPiece;
  vocabulary: Vocabulary;
  start: Start;
}

const SPACES = "\t\n\r\x0b\x0c ";
const say = (message: Said) => postMessage(message);
let reader: Promise<Reader>;
let turn: Promise<void> = Promise.resolve();
let newest = 0;

addEventListener("message", ({ data }: MessageEvent<Start | Asked>) => {
  if ("files" in data) {
    reader = prepare(data);
    reader.catch(() => undefined); // each question tells the reason
    return;
  }
  newest = data.id;
  turn = turn.then(() => answer(data));
});

async function prepare(start: Start): Promise<Reader> {
  const { model, runtime, tokenizer } = start.files;
  const tell = (loaded: number, total: number) => say({ loaded, total });
  const [graph, compressed, text] = await load(start.address, [model, runtime, tokenizer], tell);
  const vocabulary = JSON.parse(new TextDecoder().decode(text)) as Vocabulary;
  const layers = Object.values(start.shape.kinds)[0].layers;
  return { model: await Model.load(graph, await inflated(compressed), layers), tokenizer: new WordPiece(vocabulary), vocabulary, start };
}

/** Answer a question, unless the page has asked another one since. */
async function answer({ id, text, changes, layer, head }: Asked): Promise<void> {
  try {
    const ready = await reader;
    await new Promise((resolve) => setTimeout(resolve)); // lets questions arrive that were asked meanwhile
    if (id !== newest) return;
    const before = await read(ready, text, (tokens) => ready.model.unchanged(tokens));
    if (!changes) {
      const focus = { ...before.trace.focus, layer, head, query: await salientQuery(before.trace, layer, head) };
      return say({ id, trace: { ...before.trace, focus } });
    }
    const after = await read(ready, text, (tokens) => changedBy(changes, ready.model, ready.start.shape, tokens));
    say({ id, effect: await effectOf(changes, before, after) });
  } catch (error) {
    say({ id, refusal: error instanceof Refused ? error.refusal : { reason: "error", error: String(error) } });
  }
}

/** Run the model on a text; `changedFor` gives the changes for its number of tokens. */
async function read(ready: Reader, text: string, changedFor: (tokens: number) => Changed): Promise<Answer> {
  const { model, tokenizer, vocabulary, start } = ready;
  const refuse = (refusal: Refusal) => {
    throw new Refused(refusal);
  };
  if (!text.trim()) refuse({ reason: "empty" });
  const letters = [...text];
  const pieces = tokenizer.encode(letters);
  if (pieces.length > start.most) refuse({ reason: "long", tokens: pieces.length });
  const { output, numbers } = await model.run(pieces.map(({ id }) => id), changedFor(pieces.length));
  const source = tokensOf(pieces, letters, vocabulary);
  return { trace: { ...start.shape, text: escaped(text, SPACES), source, numbers }, output };
}
