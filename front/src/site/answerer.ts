// The site's answerer: a worker in which the model runs, started when somebody is about to type

import type { Effect, Trace } from "../data";
import { loading, type Answerer, type Question } from "../live";
import { head, layerNumber } from "../state";
import { words } from "../words";
import { addressOf, type Asked, type Refusal, type Said, type Site, type Start } from "./messages";

/** Where an answer goes. */
interface Waiting {
  answered: (answer: Trace | Effect) => void;
  refused: (reason: Error) => void;
}

/**
 * The answerer of a site.
 *
 * @param site what the page says about its site.
 * @param first a trace of the model, whose tokens and numbers are left out.
 */
export function answererOf(site: Site, first: Trace): Answerer {
  const shape: Trace = { ...first, text: "", source: [], blocks: {} };
  const waiting = new Map<number, Waiting>();
  let worker: Promise<Worker> | null = null;
  let asked = 0;

  const hear = ({ data }: MessageEvent<Said>) => {
    if ("loaded" in data) {
      loading.value = data.loaded < data.total ? data : null;
      return;
    }
    if ("refusal" in data && data.refusal.reason === "file") worker = null; // the next question loads again
    const asker = waiting.get(data.id);
    waiting.delete(data.id);
    if ("refusal" in data) asker?.refused(new Error(sayRefusal(data.refusal, site.most)));
    else asker?.answered("trace" in data ? data.trace : data.effect);
  };

  const started = () =>
    (worker ??= start({ ...site, shape, address: location.href }, hear).catch((error: Error) => {
      worker = null;
      throw new Error(words().notLoaded(site.files.worker.name, error.message));
    }));

  const ask = async (question: Pick<Asked, "text" | "changes">, stopped: AbortSignal) => {
    const asks = await started();
    return new Promise<Trace | Effect>((answered, refused) => {
      const id = ++asked;
      waiting.set(id, { answered, refused });
      stopped.addEventListener("abort", () => {
        waiting.delete(id);
        refused(stopped.reason);
      });
      asks.postMessage({ ...question, id, layer: layerNumber.value, head: head.value ?? 0 } satisfies Asked);
    });
  };

  return {
    trace: ({ text }: Question, stopped) => ask({ text, changes: null }, stopped) as Promise<Trace>,
    effect: ({ text, changes = [] }: Question, stopped) => ask({ text, changes }, stopped) as Promise<Effect>,
    here: { difference: site.difference },
    pauseMilliseconds: 40,
    prepare: () => void started().catch(() => undefined),
  };
}

/** Start the worker from the text of its script, so that the page's content security policy holds for it too. */
async function start(first: Start, hear: (event: MessageEvent<Said>) => void): Promise<Worker> {
  const answer = await fetch(addressOf(first.files.worker, first.address));
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const address = URL.createObjectURL(new Blob([await answer.text()], { type: "text/javascript" }));
  const worker = new Worker(address);
  URL.revokeObjectURL(address);
  worker.addEventListener("message", hear);
  worker.postMessage(first);
  return worker;
}

function sayRefusal(refusal: Refusal, most: number): string {
  const say = words();
  if (refusal.reason === "empty") return say.emptyText;
  if (refusal.reason === "long") return say.longText(refusal.tokens, most);
  if (refusal.reason === "file") return say.notLoaded(refusal.file, refusal.error);
  return refusal.error;
}
