// The page of a worked example: only the view of the steps, without the other views

import { Choose, TopBar } from "./page";
import { chooseHead, complaint, head, layer, query, queryItem, queryItems, trace } from "./state";
import { directionOf } from "./items";
import { StepByStep } from "./views/steps";
import { words } from "./words";

export function ExplainPage() {
  const say = words();
  const { text, worked } = trace.value;
  const { source, notes } = worked!;
  return (
    <>
      <header class="top">
        <TopBar />
        <h1 dir="auto">{text}</h1>
        {[source, ...notes].filter(Boolean).map((line) => <p class="facts" dir="auto" key={line}>{line}</p>)}
      </header>
      {complaint.value && <p class="notice" role="alert">{complaint.value}</p>}
      <main class="alone">
        <ExampleControls />
        <StepByStep />
      </main>
      <footer><p>{say.oneFile}</p></footer>
    </>
  );
}

/** The fields in which the reader chooses a head and a query of a worked example. */
export function ExampleControls() {
  const say = words();
  const heads = layer.value.heads;
  const items = queryItems.value;
  return (
    <div class="controls" role="group" aria-label={say.shown}>
      {heads > 1 && (
        <Choose
          label={say.head}
          value={head.value ?? 0}
          options={Object.fromEntries(Array.from({ length: heads }, (_, n) => [n, say.headOf(n + 1, heads)]))}
          choose={(headIndex) => chooseHead(0, Number(headIndex))}
        />
      )}
      <span>{say.query}</span>
      <p class="tokens queries" role="listbox" aria-label={say.queries} dir={directionOf(items)} tabIndex={0}>
        {items.map((item) => (
          <span key={item.index} class="word" role="option" aria-selected={queryItem.value === item} onClick={() => (query.value = item.positions[0])}>
            <bdi>{item.text}</bdi>
          </span>
        ))}
      </p>
    </div>
  );
}
