// The page of a trace: the text, the controls that choose a layer and a head, and the views

import { anySpecial, chooseHead, chooseKind, colourScale, complaint, head, hidden, keyTokens, kind, kindName, layer, layerNumber, queryTokens, trace, traceName, wholeWords } from "./state";
import { answerer } from "./live";
import { TextField } from "./text-field";
import { AlignmentView } from "./views/alignment";
import { Difference } from "./views/difference";
import { Generation } from "./views/generation";
import { Heads } from "./views/heads";
import { MapStrongest, MapView } from "./views/map";
import { Medium } from "./views/medium";
import { MovementView } from "./views/movement";
import { Pattern } from "./views/pattern";
import { Sentence } from "./views/sentence";
import { StepByStep } from "./views/steps";
import { Strongest } from "./views/strongest";
import { WhatIf } from "./views/what-if";
import { language, words, type Language as LanguageName } from "./words";

const MAY_SCROLL = 60; // a longer title may not fit into a narrow window; it gets the keyboard focus, so that keys can scroll it

export function Page() {
  const say = words();
  const traces = [trace.value, trace.value.second].filter((one) => one !== undefined);
  const computed = traces.flatMap(({ kinds }) => Object.values(kinds)).every(({ layers }) => layers.every((one) => one.query));
  const { below, step } = trace.value.small;
  const { here: models } = answerer.value;
  const here = models && (models.find(({ name }) => name === trace.value.model) ?? models[0]);
  const coarse = step === 1 ? say.fourDecimals : say.coarse(String(below / trace.value.units), String(step / trace.value.units));
  return (
    <>
      <Top />
      {complaint.value && <p class="notice" role="alert">{complaint.value}</p>}
      {trace.value.map ? <MapPage /> : <AllViews />}
      <footer>
        {!trace.value.map && <p class="precision">{here ? say.preciseHere(here.difference.toExponential(1)) : computed ? say.precise : coarse}</p>}
        {!trace.value.live && !trace.value.map && <p>{say.oneFile}</p>}
        {here && <p>{say.modelHere}</p>}
      </footer>
    </>
  );
}

/** The page of a long text: only the map of its weights and the list of the strongest keys. */
function MapPage() {
  return (
    <main class="of-map">
      <Controls />
      <p class="wide caption">{words().zoomNote(Math.max(queryTokens.value.length, keyTokens.value.length).toLocaleString("en"))}</p>
      <MapView />
      <MapStrongest />
    </main>
  );
}

function AllViews() {
  return (
    <main>
      <Controls />
      <div class="wide">
        <AlignmentView />
        <Medium />
        <Difference />
        <Sentence />
        <Generation />
      </div>
      <Heads />
      <Pattern />
      <Strongest />
      <WhatIf />
      <MovementView />
      <StepByStep />
    </main>
  );
}

function Top() {
  const say = words();
  const { text, target_text: target, model, live, images, spectrogram } = trace.value;
  const title = shortText(text) || (images.length ? say.picturesRead(images.length) : spectrogram ? say.recordingRead : "");
  const brand = <>regard <span>{say.tagline}</span></>;
  return (
    <header class="top">
      <div class="bar">
        {live ? <h1 class="brand">{brand}</h1> : <p class="brand">{brand}</p>}
        <span class="gap" />
        {answerer.value.course && <a href={`${answerer.value.course}#language=${language.value}`} title={say.courseTitle}>{say.lessons}</a>}
        <Language />
      </div>
      {live ? <TextField /> : <h1 dir="auto" class={title.length > 240 ? "long" : ""} tabIndex={title.length > MAY_SCROLL ? 0 : undefined}>{title}</h1>}
      {target && <p class="target" dir="auto">{shortText(target)}</p>}
      <p class="facts"><b>{trace.value.second ? `${traceName(0)} · ${traceName(1)}` : model}</b> · {sizes()}</p>
    </header>
  );
}

/** The top line of a page that has no text field: the name "regard" and the choice of the language. */
export function TopBar() {
  return (
    <div class="bar">
      <p class="brand">regard <span>{words().tagline}</span></p>
      <Language />
    </div>
  );
}

function Language() {
  return (
    <Choose
      label={words().language}
      value={language.value}
      options={{ en: "English", ko: "한국어" }}
      choose={(name) => (language.value = name as LanguageName)}
    />
  );
}

/** The text for the title; on the page with a map, whose text is long, only its first 120 letters. */
const shortText = (text: string) => (trace.value.map ? `${text.slice(0, 120)}…` : text);

/** The numbers of layers, heads and tokens as text: "6 layers × 12 heads · 13 tokens". */
function sizes(): string {
  const say = words();
  const counts = kind.value.layers.map((one) => one.heads);
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)];
  const { source, target } = trace.value;
  const tokens = source.length && target.length ? say.toTokens(source.length, target.length) : say.tokens(queryTokens.value.length);
  return `${say.layers(counts.length)} × ${say.heads(fewest === most ? most : `${fewest}–${most}`)} · ${tokens}`;
}

interface ChooseProps {
  label: string;
  value: string | number;
  options: Record<string, string>;
  choose: (value: string) => void;
}

export function Choose({ label, value, options, choose }: ChooseProps) {
  return (
    <label>
      {label}{" "}
      <select aria-label={label} value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {Object.entries(options).map(([name, text]) => <option key={name} value={name}>{text}</option>)}
      </select>
    </label>
  );
}

export function Controls() {
  const say = words();
  const kinds = Object.keys(trace.value.kinds);
  const named = say as unknown as Record<string, string>;
  const { map } = trace.value;
  const numbers = Array.from({ length: layer.value.heads }, (_, i) => i);
  return (
    <div class="controls" role="group" aria-label={say.shown}>
      {kinds.length > 1 && (
        <Choose label={say.attention} value={kindName.value} options={Object.fromEntries(kinds.map((name) => [name, named[name]]))} choose={chooseKind} />
      )}
      <Choose
        label={say.layer}
        value={layerNumber.value}
        options={Object.fromEntries(kind.value.layers.map((one) => [one.layer, String(one.layer)]))}
        choose={(number) => chooseHead(Number(number), head.value)}
      />
      <Choose
        label={say.head}
        value={head.value ?? "average"}
        options={{ ...Object.fromEntries(numbers.map((n) => [n, String(n)])), average: say.average }}
        choose={(which) => chooseHead(layerNumber.value, which === "average" ? null : Number(which))}
      />
      <span class="gap" />
      <Choose
        label={say.scale}
        value={colourScale.value}
        options={{ absolute: say.scaleAbsolute, row: map ? say.scaleView : say.scaleRow, log: map ? say.scaleMillionth : say.scaleLog }}
        choose={(name) => (colourScale.value = name as "absolute" | "row" | "log")}
      />
      <ItemChoices />
    </div>
  );
}

/** Two checkboxes: show whole words instead of tokens; hide special tokens or, in a text without special tokens, the first token. */
function ItemChoices() {
  const say = words();
  return (
    <>
      {!trace.value.map && (
        <label class="check" title={say.joinTitle}>
          <input type="checkbox" checked={wholeWords.value} onChange={(event) => (wholeWords.value = event.currentTarget.checked)} /> {say.joinWords}
        </label>
      )}
      <label class="check" title={say.hideTitle}>
        <input type="checkbox" checked={hidden.value} onChange={(event) => (hidden.value = event.currentTarget.checked)} />{" "}
        {anySpecial.value ? say.hideSpecial : say.hideFirst}
      </label>
    </>
  );
}
