// Questions to the model, about a text or about changes to its heads; a server answers them, or a worker of the page that runs the model

import { batch, signal } from "@preact/signals";
import type { Change, Effect, Going, LateMovement, ModelHere, Reading, Trace } from "../trace/data";
import { words } from "../words";
import { linkedRange } from "./linked-signals";
import { changeEffect, changes, complaint, locked, query, queryTokens, second, showSecond, showTrace, silenced, trace } from "./state";

export interface Question extends Reading {
  model?: string; // the name of the model; left out = the model that the server has loaded
  changes?: Change[];
}

/** A server, or a worker of the page, that runs a model. */
export interface Answerer {
  trace: (question: Question, stopped: AbortSignal, beside?: boolean) => Promise<Trace>; // `beside`: true = a second trace, which is shown beside the first one; no `lateMovement` follows it
  effect: (question: Question, stopped: AbortSignal) => Promise<Effect>;
  course: string | null; // the address of a page with lessons, if there is one beside this page
  here: ModelHere[] | null; // the models that can run in this page; null = a server runs the model
  pauseMilliseconds: (model: string) => number; // how long typing must pause before the model runs on a short text
  prepare?: (model: string) => void; // load the model before the first question, when the reader is about to type
}

const [LEAST_PAUSE, LONGEST_PAUSE] = [40, 600]; // milliseconds
let answerMilliseconds = LONGEST_PAUSE; // how long the server took for its last trace

const server: Answerer = {
  trace: async (question, stopped) => {
    const start = performance.now();
    const answer = (await post("trace", question, stopped)) as Trace;
    answerMilliseconds = performance.now() - start;
    return answer;
  },
  effect: (question, stopped) => post("effect", question, stopped) as Promise<Effect>,
  course: null,
  here: null,
  pauseMilliseconds: () => Math.min(LONGEST_PAUSE, Math.max(LEAST_PAUSE, answerMilliseconds / 2)),
};

// How a causal language model samples the tokens that it generates: the reader sets the temperature and the nucleus with sliders.
export const samplingTemperature = linkedRange("next-temperature", 1, 0, 4); // 0 = always the most probable token
export const nucleus = linkedRange("nucleus", 1, 0.05, 1); // sample only from the most probable tokens, as many as are needed for this sum of probabilities

export class TooLong extends Error {}

export const answerer = signal<Answerer>(server);
export const busy = signal(false); // true = a question is being answered
export const tooLong = signal(false); // true = `complaint` says that the text is longer than the model reads
export const loading = signal<{ loaded: number; total: number } | null>(null); // bytes of the model being loaded; null = no model is being loaded
export const answered = signal<Partial<Question>>({}); // the question whose answer is shown; {} = the trace that came with the page is shown
export const lateMovement = signal<{ of: Trace; moves: LateMovement } | null>(null); // a worker's message after the trace `of`: how the layers move its hidden vectors; null = not sent yet
export const awaitedMovement = signal<Trace | null>(null); // the trace for which a worker still computes `lateMovement`; null = none
let running: AbortController | null = null; // stops the question that was asked last

export const cancel = () => running?.abort();

/** Let the model read a text, and show the trace. A question without a model goes to the model of the last answer. Returns whether an answer came. */
export const readText = ({ model = answered.peek().model, ...question }: Question) =>
  ask((stopped) => answerer.value.trace({ model, ...question }, stopped), (answer) => {
    batch(() => {
      const other = second.value;
      showTrace(answer, true);
      if (other && other.model === answer.model && !answer.map) showSecond(other);
      const reading = answer.going ? readingOf(answer.going, question.truncate) : question;
      answered.value = model === undefined ? reading : { model, ...reading };
    });
  });

/** What a causal model has read, with the tokens that it sampled, so that a link restores them. */
function readingOf({ text, continuation }: Going, truncate?: boolean): Reading {
  return { text, truncate, continuation: continuation.length ? continuation : undefined };
}

/** Ask the model that has read the first text for the trace of a second text, and show it beside the first. Returns whether it is shown. */
export const compareWith = (text: string) =>
  ask((stopped) => answerer.value.trace({ text, model: answered.value.model ?? modelHere() }, stopped, true), (answer) => {
    if (answer.map) throw new Error(words().compareLong);
    if (answer.model !== trace.value.model) throw new Error(words().compareModel(answer.model, trace.value.model));
    showSecond(answer);
  });

/** The name of the model whose trace is shown, if models run in this page; undefined if a server runs the model that it has loaded. */
const modelHere = () => (answerer.value.here ? trace.value.model : undefined);

/** The text that was typed, and the ids of its continuation (the tokens that were generated or chosen after it). */
export function typedText(): Pick<Question, "text" | "continuation"> {
  const { text, continuation }: Partial<Going> & { text: string } = trace.value.going ?? trace.value;
  return { text, continuation };
}

/** Run the model with the reader's changes to its heads, and show the effect, unless the reader makes other changes meanwhile. Returns whether an answer came. */
export function runChanged(headChanges: Change[]): Promise<boolean> {
  const [changesAtStart, silencedAtStart] = [changes.value, silenced.value];
  const question = { ...typedText(), truncate: answered.value.truncate, model: modelHere(), changes: headChanges };
  return ask((stopped) => answerer.value.effect(question, stopped), (answer) => {
    if (changes.value === changesAtStart && silenced.value === silencedAtStart) changeEffect.value = answer;
  });
}

/** Show the text continued with token `id`, and choose this token as the query. */
export async function continueWith(id: number): Promise<void> {
  const { text, continuation = [] } = typedText();
  const isAnswered = await readText({ text, model: modelHere(), continuation: [...continuation, id] });
  if (isAnswered) [query.value, locked.value] = [queryTokens.value.length - 1, true];
}

/** Ask a question, stop the question before it, and call `use` with the answer. Returns whether an answer came; if not, `complaint` says why. */
async function ask<Answer>(question: (stopped: AbortSignal) => Promise<Answer>, use: (answer: Answer) => void): Promise<boolean> {
  cancel();
  const controller = new AbortController();
  running = controller;
  busy.value = true;
  [complaint.value, tooLong.value] = ["", false];
  try {
    const answer = await question(controller.signal);
    controller.signal.throwIfAborted();
    use(answer);
    return true;
  } catch (error) {
    if (controller.signal.aborted) return false;
    complaint.value = error instanceof Error ? error.message : String(error);
    tooLong.value = error instanceof TooLong;
    return false;
  } finally {
    if (running === controller) busy.value = false;
  }
}

/** Send JSON to the server and return its response. If the server refuses or does not answer, an error with the reason is thrown. */
export async function send(address: string, content: unknown, stopped: AbortSignal): Promise<Response> {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(content), signal: stopped }).catch(() => {
    throw stopped.aborted ? stopped.reason : new Error(words().noServer);
  });
  if (answer.ok) return answer;
  const reason = await answer.text();
  if (!answer.headers.get("Content-Type")?.startsWith("application/json")) throw new Error(reason);
  const { error, too_long: long } = JSON.parse(reason);
  throw long ? new TooLong(words().longText(long.tokens, long.max_tokens)) : new Error(error);
}

async function post(address: string, question: Question, stopped: AbortSignal): Promise<unknown> {
  if (!question.text.trim()) throw new Error(words().emptyText);
  return (await send(address, question, stopped)).json();
}
