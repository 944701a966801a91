// The field for a text, on which a server or a worker runs the model

import { signal } from "@preact/signals";
import { answerer, busy, cancel, compareWith, loading, nucleus, type Question, readText, samplingTemperature, typedText } from "../state/questions";
import { complaint, isLongText, LONG_TEXT, second, showSecond, trace } from "../state/state";
import type { ModelHere } from "../trace/data";
import { words } from "../words";

export const MOST_LINKED = 2_000; // the most letters of a text in a link: a longer text would make the address too long
const MOST_NAME_LETTERS = 300; // a link is ignored if the name of its model has more letters than this
const MOST_WRITTEN = 512; // the most tokens that the model generates at once

const typed = signal<string | null>(null); // the text that was typed into the field; null = the field has the text of the trace
const typedSecond = signal<string | null>(null); // the text in the field of the second text; null = there is no such field
const model = signal<string | null>(null); // the name of the model that the reader has chosen; null = the model of the shown trace
const newTokens = signal(0); // how many tokens the model is to generate
export const proposed = signal<{ then: () => void } | null>(null); // not null while the model has not yet read the text of a link; `then` is called afterwards
let typingTimer = 0; // the timer that runs the model after a pause in typing

const chosenModel = () => model.value ?? trace.value.model;

const translates = (): boolean => (answerer.value.here ? kindHere() === "translator" : Boolean(trace.value.alignment));

/** The kind of the chosen model, if it can run in this page; undefined for a server's model. */
const kindHere = () => answerer.value.here?.find(({ name }) => name === chosenModel())?.kind;

/** Let the model read the text in the field, then the tokens `continuation`. `truncate`: of a text that is too long, it reads only the beginning. */
export function ask(continuation?: number[], truncate?: true): void {
  clearTimeout(typingTimer);
  // Tokens that the model generated are not read again as text, which might be cut into other tokens.
  const isUnchanged = typed.value === null && !model.value;
  const { text, continuation: shown }: Question = isUnchanged ? typedText() : { text: typed.value ?? trace.value.text };
  const modelToAsk = answerer.value.here ? chosenModel() : model.value || undefined;
  const [link, typedBefore, modelBefore] = [proposed.value, typed.value, model.value];
  void readText({ text, model: modelToAsk, ...generationSettings(), continuation: continuation ?? shown, truncate }).then((isAnswered) => {
    if (isAnswered) {
      if (typed.value === typedBefore) typed.value = null; // else the reader has typed more meanwhile
      if (model.value === modelBefore) model.value = null;
      if (second.value?.text !== (typedSecond.value ?? undefined)) askSecond(); // the field of the second text has a text whose trace is not shown
    }
    if (proposed.value !== link) return; // meanwhile, the reader has typed another text
    proposed.value = null;
    if (isAnswered) link?.then();
  });
}

/** Let the model read the second text, then call `then`. If the field of the first text has changed, `ask` reads both texts instead. */
function askSecond(then?: () => void): void {
  if (!typedSecond.value?.trim()) return;
  if (typed.value !== null) return ask();
  clearTimeout(typingTimer);
  const link = proposed.value;
  void compareWith(typedSecond.value).then((isAnswered) => {
    if (proposed.value !== link) return;
    proposed.value = null;
    if (isAnswered) then?.();
  });
}

/** Put a text from a link into the field of the second text, and let the model read it. Afterwards, call `then`. */
export function proposeSecond(text: string, then: () => void): void {
  if (!trace.value.live || isLongText.value || !text.trim() || text.length > MOST_LINKED) return;
  [typedSecond.value, proposed.value] = [text, { then }];
  askSecond(then);
}

/** Call `then` after a pause in typing, if the text is so short that the answer comes fast. */
function askAfterPause(text: string, then: () => void): void {
  clearTimeout(typingTimer);
  if (!text.trim() || text.length > 4 * LONG_TEXT || newTokens.value) return;
  typingTimer = window.setTimeout(then, answerer.value.pauseMilliseconds(chosenModel()));
}

/** The fields of a question that say how many tokens the model generates and, for a causal language model, how they are sampled. */
function generationSettings(): Partial<Question> {
  if (!newTokens.value) return {};
  const samples = answerer.value.here ? kindHere() === "causal" : trace.value.going;
  if (!samples) return { new_tokens: newTokens.value };
  return { new_tokens: newTokens.value, temperature: samplingTemperature.value, nucleus: nucleus.value };
}

/** Put the text and the model of a link into the fields, and run the model. A server loads another model only after a click: anybody can write a link. */
export function propose({ text, model: name = "", new_tokens: nNewTokens = 0, continuation }: Question, then: () => void): void {
  const { live, text: shownText, model: shownModel } = trace.value;
  if (!live || !text.trim() || text.length > MOST_LINKED || name.length > MOST_NAME_LETTERS || nNewTokens > MOST_WRITTEN) return;
  if (text === shownText && name === shownModel && !nNewTokens && !continuation) return;
  const { here } = answerer.value;
  const isOtherModel = name !== "" && name !== shownModel && (!here || here.some((one) => one.name === name));
  proposed.value = { then };
  [typed.value, model.value, newTokens.value] = [text, isOtherModel ? name : null, nNewTokens];
  if (isOtherModel && !here) complaint.value = words().linkedModel(name);
  else ask(continuation);
}

export function TextField() {
  const say = words();
  const canWrite = answerer.value.here ? kindHere() === "causal" : !translates();
  return (
    <form
      class="type"
      onSubmit={(event) => {
        event.preventDefault();
        ask();
      }}
    >
      <textarea
        data-role="text"
        aria-label={say.text}
        dir="auto"
        rows={trace.value.text.length > LONG_TEXT ? 3 : 1}
        value={typed.value ?? trace.value.text}
        onFocus={() => answerer.value.prepare?.(chosenModel())}
        onInput={(event) => {
          [typed.value, proposed.value] = [event.currentTarget.value, null];
          askAfterPause(typed.value, ask);
        }}
        onKeyDown={onEnter(() => ask())}
      />
      <SecondField />
      <div class="options">
        {answerer.value.here ? <ModelsHere models={answerer.value.here} /> : <ModelOfServer />}
        {canWrite && <NewTokens />}
        {busy.value ? (
          <button type="button" key="cancel" onClick={cancel}>{say.cancel}</button>
        ) : (
          <button type="submit" key="look">{translates() ? say.translate : say.look}</button>
        )}
        {typedSecond.value === null && !isLongText.value && (
          <button type="button" class="plain" key="second" onClick={() => (typedSecond.value = "")}>{say.compareText}</button>
        )}
        <span role="status">{status()}</span>
      </div>
    </form>
  );
}

/** The reaction of a text field to the keyboard: Enter calls `then`; with Shift, it begins a new line. */
const onEnter = (then: () => void) => (event: KeyboardEvent) => {
  if (event.key !== "Enter" || event.shiftKey) return;
  event.preventDefault();
  then();
};

function SecondField() {
  const say = words();
  if (typedSecond.value === null || isLongText.value) return null;
  const close = () => {
    clearTimeout(typingTimer);
    typedSecond.value = null;
    showSecond(null);
  };
  return (
    <div class="second">
      <textarea
        data-role="second-text"
        aria-label={say.secondText}
        dir="auto"
        rows={1}
        value={typedSecond.value}
        ref={(field) => { if (!typedSecond.peek()) field?.focus(); }}
        onInput={(event) => {
          [typedSecond.value, proposed.value] = [event.currentTarget.value, null];
          askAfterPause(typedSecond.value, askSecond);
        }}
        onKeyDown={onEnter(() => askSecond())}
      />
      <button type="button" onClick={() => askSecond()}>{say.compareTexts}</button>
      <button type="button" class="plain" aria-label={say.closeSecond} title={say.closeSecond} onClick={close}>✕</button>
    </div>
  );
}

function ModelsHere({ models }: { models: ModelHere[] }) {
  const say = words();
  if (models.length < 2) return null;
  const choose = (name: string) => {
    model.value = name;
    answerer.value.prepare?.(name);
    ask();
  };
  return (
    <label>
      {say.model}
      <select data-role="model" value={chosenModel()} onChange={(event) => choose(event.currentTarget.value)}>
        {models.map(({ name }) => <option key={name} value={name}>{name}</option>)}
      </select>
    </label>
  );
}

function ModelOfServer() {
  return (
    <label>
      {words().model}
      <input type="text" data-role="model" size={18} value={model.value ?? trace.value.model} onInput={(event) => (model.value = event.currentTarget.value)} />
    </label>
  );
}

function NewTokens() {
  const say = words();
  return (
    <label>
      {say.write}
      <input
        type="number"
        data-role="new-tokens"
        min={0}
        max={MOST_WRITTEN}
        value={newTokens.value}
        onInput={(event) => (newTokens.value = Number(event.currentTarget.value))}
      />
      {say.writeTokens}
    </label>
  );
}

function status(): string {
  const say = words();
  const megabytes = (bytes: number) => (bytes / 1e6).toFixed(0);
  if (loading.value) return say.loadingModel(megabytes(loading.value.loaded), megabytes(loading.value.total));
  return busy.value ? say.looking : "";
}
