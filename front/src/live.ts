// Ask the server that this page came from to run the model on another text

import { signal } from "@preact/signals";
import type { Trace } from "./data";
import { complaint, show, trace } from "./state";

export const busy = signal(false);
let running: AbortController | null = null;

/** Show the trace that the server answers; a new question cancels the one before. */
export async function ask(question: { text: string }): Promise<void> {
  running?.abort();
  const own = (running = new AbortController());
  busy.value = true;
  complaint.value = "";
  try {
    const body = JSON.stringify({ model: trace.value.model, ...question });
    const headers = { "Content-Type": "application/json" };
    const answer = await fetch("trace", { method: "POST", headers, body, signal: own.signal });
    const content = await answer.json();
    if (answer.ok) show(content as Trace);
    else complaint.value = content.error;
  } catch (error) {
    if (!own.signal.aborted) complaint.value = String(error);
  } finally {
    if (running === own) busy.value = false;
  }
}
