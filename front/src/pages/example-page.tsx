// The page of a worked example: it shows only how attention is computed step by step (`StepByStep`)

import { complaint, trace } from "../state/state";
import { StepByStep } from "../views/steps/steps";
import { ChangesBand } from "../views/what-if";
import { language, words } from "../words";
import { ExampleControls, TopBar } from "./controls";
import { pageTitle } from "./title";

export function ExamplePage() {
  const say = words();
  const { source, notes } = trace.value.worked!.texts[language.value];
  return (
    <>
      <header class="top">
        <TopBar />
        <h1 dir="auto">{pageTitle()}</h1>
        {[source, ...notes].filter(Boolean).map((line) => <p class="facts" dir="auto" key={line}>{line}</p>)}
      </header>
      {complaint.value && <p class="notice" role="alert">{complaint.value}</p>}
      <ChangesBand />
      <main class="alone">
        <ExampleControls />
        <StepByStep />
      </main>
      <footer><p>{say.oneFile}</p></footer>
    </>
  );
}
