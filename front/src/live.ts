// Ask the server that this page came from: to run the model on another text, or with changes to its heads

import { signal } from "@preact/signals";
import type { Change, Effect, Trace } from "./data";
import { complaint, effect, show, trace } from "./state";

export interface Question {
  text: string;
  model?: string;
  new_tokens?: number;
  changes?: Change[];
}

export const busy = signal(false);
let running: AbortController | null = null;

/** Stop waiting for an answer. */
export function cancel(): void {
  running?.abort();
}

/** Show the trace of another text. */
export const look = (question: Question) => ask("trace", question, (answer) => show(answer as Trace, true));

/** Show what changes to the heads do to the output. */
export const runWith = (changes: Change[]) =>
  ask("effect", { text: trace.value.text, changes }, (answer) => (effect.value = answer as Effect));

/** Ask a question, and use its answer; a new question cancels the one before. Returns whether it was answered. */
async function ask(address: string, question: Question, use: (answer: unknown) => void): Promise<boolean> {
  cancel();
  const own = (running = new AbortController());
  busy.value = true;
  complaint.value = "";
  try {
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch(address, { method: "POST", headers, body: JSON.stringify(question), signal: own.signal });
    const content = await answer.text();
    if (answer.headers.get("Content-Type")?.startsWith("application/json")) {
      const parsed = JSON.parse(content);
      if (answer.ok) use(parsed);
      else complaint.value = parsed.error;
    } else complaint.value = content;
    return answer.ok;
  } catch (error) {
    if (!own.signal.aborted) complaint.value = String(error);
    return false;
  } finally {
    if (running === own) busy.value = false;
  }
}
