// The page of a trace: the text, the controls that choose a layer and a head, and the views

import { answerer, tooLong } from "../state/questions";
import { complaint, isLongText, keyTokens, kind, queryTokens, second, trace, traceName } from "../state/state";
import { AlignmentView } from "../views/alignment/alignment";
import { Difference } from "../views/difference";
import { Generation } from "../views/generation";
import { Heads } from "../views/heads/heads";
import { MapView } from "../views/map/map";
import { MapStrongest } from "../views/map/map-strongest";
import { Medium } from "../views/medium";
import { MovementView } from "../views/movement/movement";
import { Pattern } from "../views/pattern/pattern";
import { Sentence } from "../views/sentence/sentence";
import { StepByStep } from "../views/steps/steps";
import { Strongest } from "../views/strongest";
import { ChangesBand, WhatIf } from "../views/what-if";
import type { Layer, ModelHere } from "../trace/data";
import { words } from "../words";
import { Controls, TopBar } from "./controls";
import { ask, TextField } from "./text-field";
import { pageTitle, shortText } from "./title";

const MAY_SCROLL = 60; // a title with more letters than this may not fit into a narrow window; it can get the keyboard focus, so that keys can scroll it

export function TracePage() {
  const say = words();
  const traces = [trace.value, second.value].filter((one) => one !== null);
  const layers = traces.flatMap(({ kinds }) => Object.values(kinds)).flatMap((kind) => kind.layers);
  const { here: models } = answerer.value;
  const modelHere = models && (models.find(({ name }) => name === trace.value.model) ?? models[0]);
  const precision = modelHere ? precisionHere(modelHere) : precisionOfPage(layers);
  return (
    <>
      <Header />
      {complaint.value && (
        <p class="notice" role="alert" ref={(notice) => notice?.scrollIntoView({ block: "nearest" })}>
          {complaint.value} {tooLong.value && <button type="button" onClick={() => ask(undefined, true)}>{say.readBeginning}</button>}
        </p>
      )}
      <ChangesBand />
      {isLongText.value ? <MapViews /> : <AllViews />}
      <footer>
        {!isLongText.value && <p class="precision">{precision}</p>}
        {!trace.value.live && !isLongText.value && <p>{say.oneFile}</p>}
        {modelHere && <p>{say.modelHere}</p>}
      </footer>
    </>
  );
}

const precisionHere = ({ int8, difference }: ModelHere): string =>
  int8 ? words().quantisedHere(difference.toPrecision(2)) : words().preciseHere(difference.toExponential(1));

/** How precise the weights are: computed from queries and keys, or stored as rounded numbers. */
function precisionOfPage(layers: Layer[]): string {
  const say = words();
  if (layers.every((layer) => layer.query)) return say.precise;
  const { small: { below, step }, units } = trace.value;
  return step === 1 ? say.fourDecimals : say.coarse(String(below / units), String(step / units));
}

function MapViews() {
  return (
    <main class="of-map">
      <Controls />
      <p class="wide caption">{words().mapNote(Math.max(queryTokens.value.length, keyTokens.value.length).toLocaleString("en"))}</p>
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

function Header() {
  const { target_text: target, model, live } = trace.value;
  const title = pageTitle();
  return (
    <header class="top">
      <TopBar />
      {live ? (
        <TextField />
      ) : (
        <h1 dir="auto" class={title.length > 240 ? "long" : ""} tabIndex={title.length > MAY_SCROLL ? 0 : undefined}>{title}</h1>
      )}
      {target && <p class="target" dir="auto">{shortText(target)}</p>}
      <p class="facts"><b>{second.value ? `${traceName(0)} · ${traceName(1)}` : model}</b> · {sizes()}</p>
    </header>
  );
}

/** The numbers of layers, heads and tokens as text: "6 layers × 12 heads · 13 tokens". */
function sizes(): string {
  const say = words();
  const headCounts = kind.value.layers.map((layer) => layer.heads);
  const [fewest, most] = [Math.min(...headCounts), Math.max(...headCounts)];
  const { source, target } = trace.value;
  const tokens = source.length && target.length ? say.toTokens(source.length, target.length) : say.tokens(queryTokens.value.length);
  return `${say.layers(headCounts.length)} × ${say.heads(fewest === most ? most : `${fewest}–${most}`)} · ${tokens}`;
}
