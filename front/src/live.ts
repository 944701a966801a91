// Ask for another text, or for changes to the model's heads: a server answers, or a worker in which the model runs

import { batch, signal } from "@preact/signals";
import type { Change, Effect, Going, Trace } from "./data";
import { complaint, effect, locked, query, queryTokens, show, trace } from "./state";

export interface Question {
  text: string;
  model?: string;
  continuation?: number[]; // ids of tokens that follow the text, for a causal language model
  new_tokens?: number;
  temperature?: number; // at which these tokens are drawn; without it, the model's own settings say how
  nucleus?: number;
  changes?: Change[];
}

/** A model that runs in this page. */
export interface ModelHere {
  name: string;
  kind: "encoder" | "causal" | "translator";
  difference: number; // how far a weight was from Python's when the site was made
}

/** A server or a worker that runs a model on typed texts. */
export interface Answerer {
  trace: (question: Question, stopped: AbortSignal) => Promise<Trace>;
  effect: (question: Question, stopped: AbortSignal) => Promise<Effect>;
  course: string | null; // the address of a page with lessons, if there is one beside this page
  here: ModelHere[] | null; // the models that run in this page, where a question names one of them; null = a server runs any
  pauseMilliseconds: (model: string) => number; // how long typing must pause before the model runs on a short text
  prepare?: (model: string) => void; // load the model early: the reader is about to type
}

/** The server that this page came from. */
const server: Answerer = {
  trace: (question, stopped) => post("trace", question, stopped) as Promise<Trace>,
  effect: (question, stopped) => post("effect", question, stopped) as Promise<Effect>,
  course: null,
  here: null,
  pauseMilliseconds: () => 600,
};

export const answerer = signal<Answerer>(server);
export const busy = signal(false);
export const loading = signal<{ loaded: number; total: number } | null>(null); // bytes of a model that is being loaded
export const answered = signal<Partial<Question>>({}); // the question whose answer is shown; without a text, the first trace is
let running: AbortController | null = null;

/** Stop waiting for an answer. */
export function cancel(): void {
  running?.abort();
}

/** Show the trace of another text. */
export const look = ({ model = answered.peek().model, ...question }: Question) =>
  ask((stopped) => answerer.value.trace({ model, ...question }, stopped), (answer) => {
    batch(() => {
      show(answer, true);
      const { text, continuation } = answer.going ?? question; // the tokens that were drawn, which a link is to restore
      const read = answer.going ? { text, continuation: continuation?.length ? continuation : undefined } : question;
      answered.value = model === undefined ? read : { model, ...read };
    });
  });

/** The model whose trace is shown, if it runs in this page; a server takes the model that it has loaded. */
const modelHere = () => (answerer.value.here ? trace.value.model : undefined);

/** The text that is shown, and the tokens that follow it. */
const shownReading = () => (({ text, continuation }: Partial<Going> & { text: string }) => ({ text, continuation }))(trace.value.going ?? trace.value);

/** Show what changes to the heads do to the output. */
export const runWith = (changes: Change[]) =>
  ask((stopped) => answerer.value.effect({ ...shownReading(), model: modelHere(), changes }, stopped), (answer) => (effect.value = answer));

/** Let the model read one token more than it has read, and show what this token attends to. */
export async function goOnWith(id: number): Promise<void> {
  const { text, continuation = [] } = shownReading();
  if (await look({ text, model: modelHere(), continuation: [...continuation, id] })) [query.value, locked.value] = [queryTokens.value.length - 1, true];
}

/** Ask a question, and use its answer; a new question cancels the one before. Returns whether it was answered. */
async function ask<Answer>(question: (stopped: AbortSignal) => Promise<Answer>, use: (answer: Answer) => void): Promise<boolean> {
  cancel();
  const own = (running = new AbortController());
  busy.value = true;
  complaint.value = "";
  try {
    const answer = await question(own.signal);
    own.signal.throwIfAborted();
    use(answer);
    return true;
  } catch (error) {
    if (!own.signal.aborted) complaint.value = error instanceof Error ? error.message : String(error);
    return false;
  } finally {
    if (running === own) busy.value = false;
  }
}

/** Send JSON to the server; a refusal is thrown as an error with its reason. */
export async function send(address: string, content: unknown, stopped: AbortSignal): Promise<Response> {
  const headers = { "Content-Type": "application/json" };
  const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(content), signal: stopped });
  if (answer.ok) return answer;
  const reason = await answer.text();
  throw new Error(answer.headers.get("Content-Type")?.startsWith("application/json") ? JSON.parse(reason).error : reason);
}

const post = async (address: string, question: Question, stopped: AbortSignal): Promise<unknown> => (await send(address, question, stopped)).json();
