// The `Answerer` (see state/questions.ts) of a site: it starts a worker and sends it the questions of the page; the worker runs the models

import { type Answerer, lateMovement, loading, type Question, awaitedMovement, TooLong } from "../state/questions";
import { complaint, head, kindName, layerNumber } from "../state/state";
import type { Effect, Reading, Trace } from "../trace/data";
import { words } from "../words";
import { addressOf, type Ask, type ModelRecord, type Prepare, type Refusal, type FromWorker, type Site, type Start } from "./messages";

// How long typing must pause before the model runs. It is longer for models that generate, since these take many steps.
const PAUSE_MILLISECONDS = { encoder: 40, causal: 300, translator: 300 };

interface Waiting {
  model: ModelRecord;
  beside: boolean;
  answered: (answer: Trace | Effect) => void;
  refused: (reason: Error) => void;
}

export function answererOf(site: Site): Answerer {
  const waiting = new Map<number, Waiting>();
  let worker: Promise<Worker> | null = null;
  let nAsked = 0;
  let latest: { id: number; trace: Trace } | null = null; // the last trace that the worker has sent; a later message with the same id has its `moves` (how the layers move its hidden vectors)
  const modelIndex = (name: string) => Math.max(0, site.models.findIndex((model) => model.name === name));

  const receive = ({ data }: MessageEvent<FromWorker>) => {
    if ("loaded" in data) {
      loading.value = data.loaded < data.total ? data : null;
      return;
    }
    if ("moves" in data) {
      if (latest?.id === data.id) [lateMovement.value, awaitedMovement.value] = [{ of: latest.trace, moves: data.moves }, null];
      return;
    }
    const question = waiting.get(data.id);
    waiting.delete(data.id);
    if ("refusal" in data) {
      const hasTrace = latest?.id === data.id; // only the computation of its `moves` has failed: the trace stays
      if (hasTrace) [complaint.value, awaitedMovement.value] = [sayRefusal(data.refusal, 0), null];
      else question?.refused(refusalOf(data.refusal, question.model.max_tokens));
      return;
    }
    question?.answered("trace" in data ? data.trace : data.effect);
    if ("trace" in data && question && !question.beside) [latest, awaitedMovement.value] = [data, data.trace];
  };

  const startedWorker = () =>
    (worker ??= start({ ...site, address: location.href }, receive).catch((error: Error) => {
      worker = null;
      throw new Error(words().notLoaded(site.worker.name, error.message));
    }));

  const ask = async (question: Reading & Pick<Ask, "beside" | "changes">, name: string, stopped: AbortSignal) => {
    const running = await startedWorker();
    return new Promise<Trace | Effect>((answered, refused) => {
      const [id, model] = [++nAsked, modelIndex(name)];
      waiting.set(id, { model: site.models[model], beside: question.beside, answered, refused });
      stopped.addEventListener("abort", () => {
        waiting.delete(id);
        refused(stopped.reason);
      });
      const shown = { kind: kindName.value, layer: layerNumber.value, head: head.value ?? 0 };
      if (!question.beside) awaitedMovement.value = null; // the worker stops its work on the question before, so the `moves` of that trace will not come
      running.postMessage({ ...question, ...shown, id, model } satisfies Ask);
    });
  };

  return {
    trace: ({ model, ...reading }: Question, stopped, beside = false) => ask({ ...reading, beside, changes: null }, model!, stopped) as Promise<Trace>,
    effect: ({ model, changes = [], ...reading }: Question, stopped) => ask({ ...reading, beside: false, changes }, model!, stopped) as Promise<Effect>,
    course: site.course,
    here: site.models,
    pauseMilliseconds: (name) => PAUSE_MILLISECONDS[site.models[modelIndex(name)].kind],
    prepare: (name) =>
      void startedWorker().then(
        (running) => running.postMessage({ prepare: modelIndex(name) } satisfies Prepare),
        () => undefined,
      ),
  };
}

/** Start the worker from the text of its script, so that the content security policy of the page applies to the worker, too. */
async function start(startMessage: Start, receive: (event: MessageEvent<FromWorker>) => void): Promise<Worker> {
  const answer = await fetch(addressOf(startMessage.worker, startMessage.address));
  if (!answer.ok) throw new Error(`status ${answer.status}`);
  const address = URL.createObjectURL(new Blob([await answer.text()], { type: "text/javascript" }));
  const worker = new Worker(address);
  URL.revokeObjectURL(address);
  worker.addEventListener("message", receive);
  worker.postMessage(startMessage);
  return worker;
}

const refusalOf = (refusal: Refusal, maxTokens: number) => new (refusal.reason === "long" ? TooLong : Error)(sayRefusal(refusal, maxTokens));

function sayRefusal(refusal: Refusal, maxTokens: number): string {
  const say = words();
  if (refusal.reason === "empty") return say.emptyText;
  if (refusal.reason === "surrogate") return say.brokenText;
  if (refusal.reason === "long") return say.longText(refusal.tokens, maxTokens);
  if (refusal.reason === "file") return say.notLoaded(refusal.file, refusal.error);
  return refusal.error;
}
