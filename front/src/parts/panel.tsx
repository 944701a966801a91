// The parts that all views are made of: the panel with title and tools, choices, sliders, lists and tables

import { batch, type Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useState } from "preact/hooks";
import { course, lessonNumber } from "../state/course";
import { linkedChoice } from "../state/linked-signals";
import { isLongText, second, traceName, weightsChanged } from "../state/state";
import { words } from "../words";
import { savePanel } from "./save";

interface PanelProps {
  view: string; // the name of the view, which becomes the attribute `data-view`
  title: string;
  caption?: string;
  tools?: ComponentChildren;
  wide?: boolean; // true = the panel is as wide as the page
  changed?: boolean; // true = the panel shows the head with the reader's changes; false = the head as it is in the model
  both?: boolean; // with two traces: true = the panel shows both; false = it shows only the first trace, and its heading names this trace
  children: ComponentChildren;
}

export function Panel({ view, title, caption, tools, wide = false, changed = false, both = false, children }: PanelProps) {
  const say = words();
  const changeNote = changed ? say.asChanged : say.asInModel;
  return (
    <section class={`panel ${view}-panel${wide ? " whole" : ""}`} data-view={view} aria-label={title}>
      <div class="bar">
        <h2>
          {title}
          {second.value && !both && <> <span class="of-trace">{traceName(0)}</span></>}
          {weightsChanged.value && view !== "what-if" && <> <span class={`of-trace${changed ? " as-changed" : ""}`}>{changeNote}</span></>}
        </h2>
        {tools && <div class="tools">{tools}</div>}
      </div>
      <Save />
      {caption && <p class="caption">{caption}</p>}
      {children}
    </section>
  );
}

function Save() {
  const say = words();
  const save = (button: HTMLElement, ending: "svg" | "png") => {
    button.closest("details")!.open = false;
    void savePanel(button.closest<HTMLElement>("[data-view]")!, ending);
  };
  return (
    <details class="save">
      <summary aria-label={say.save} title={say.save}>⤓</summary>
      <div>
        <button type="button" onClick={(event) => save(event.currentTarget, "png")}>PNG</button>
        <button type="button" title={say.saveSvg} onClick={(event) => save(event.currentTarget, "svg")}>SVG</button>
      </div>
    </details>
  );
}

/** The caution that weights do not explain an output by themselves, with a button that goes to the view in which the reader changes weights. */
export function Caution() {
  const say = words();
  const goToWhatIf = () => {
    const view = document.querySelector<HTMLElement>("[data-view=what-if]")!;
    view.scrollIntoView({ block: "center" });
    view.querySelector("input")?.focus({ preventScroll: true });
  };
  const isOnPage = !isLongText.value && (!course.value || course.value.lessons[lessonNumber()].views.includes("what-if"));
  return (
    <p class="caption caution">
      {say.caution} {isOnPage && <button type="button" onClick={goToWhatIf}>{say.tryChange}</button>}
    </p>
  );
}

interface ChoiceProps<Name> {
  label: string;
  of: Signal<Name>;
  options: [Name, string][];
  then?: () => void; // is called after a choice
}

/** A row of buttons, each of which sets the signal `of` to one of its values. The button of the present value looks pressed. */
export function Choice<Name extends string>({ label, of, options, then }: ChoiceProps<Name>) {
  const choose = (name: Name) => batch(() => ((of.value = name), then?.()));
  return (
    <div class="choice" role="group" aria-label={label}>
      {options.map(([name, text]) => (
        <button type="button" key={name} aria-pressed={name === of.value} onClick={() => choose(name)}>{text}</button>
      ))}
    </div>
  );
}

export function Check({ of, label, title }: { of: Signal<boolean>; label: string; title?: string }) {
  return (
    <label class="check" title={title}>
      <input type="checkbox" checked={of.value} onChange={(event) => (of.value = event.currentTarget.checked)} /> {label}
    </label>
  );
}

type Range = Record<"min" | "max" | "step" | "value", number>;

/** A slider; `text` is its value as text. */
export function Slider({ label, text, choose, ...range }: { label: string; text: string; choose: (value: number) => void } & Range) {
  return (
    <label class="slider">
      {label}
      <input type="range" {...range} aria-valuetext={text} onInput={(event) => choose(Number(event.currentTarget.value))} />
      <output>{text}</output>
    </label>
  );
}

/** Whether drawings of the weights of a head have the queries as rows or as columns. */
export const queriesAs = linkedChoice("queries", "rows", "columns");

export function QueriesAs() {
  const say = words();
  const options: ["rows" | "columns", string][] = [["rows", say.queriesDown], ["columns", say.queriesAcross]];
  return <Choice label={say.turned} of={queriesAs} options={options} />;
}

/** Buttons that enlarge the cells of a drawing by `factor`, make them smaller by it, or show all of them. */
export function CellSize({ factor, zoomed }: { factor: number; zoomed: { scaleBy: (factor: number) => void; reset: () => void } }) {
  const say = words();
  return (
    <div class="choice" role="group" aria-label={say.cellSize}>
      <button type="button" aria-label={say.smaller} onClick={() => zoomed.scaleBy(1 / factor)}>−</button>
      <button type="button" onClick={zoomed.reset}>{say.fit}</button>
      <button type="button" aria-label={say.larger} onClick={() => zoomed.scaleBy(factor)}>+</button>
    </div>
  );
}

/** A line of a ranked list: a name, a number, and a bar whose length is `share` of the width. */
interface Ranked {
  name: string;
  number: string;
  share: number; // the length of the bar, from 0 to 1 (the whole width)
  title?: string;
  choose?: () => void; // if given, the line is a button that calls it
}

export function RankedList({ lines, disabled = false }: { lines: Ranked[]; disabled?: boolean }) {
  const content = ({ name, number, share }: Ranked) => (
    <>
      <i style={{ width: `${100 * share}%` }} />
      <span>{name}</span>
      <span>{number}</span>
    </>
  );
  return (
    <ol class="top">
      {lines.map((line, rank) => (
        <li key={rank}>
          {line.choose ? <button type="button" disabled={disabled} title={line.title} onClick={line.choose}>{content(line)}</button> : content(line)}
        </li>
      ))}
    </ol>
  );
}

export function Failed({ reason, again }: { reason: string; again?: () => void }) {
  return (
    <p class="notice" role="alert">
      {reason} {again && <button type="button" onClick={again}>{words().tryAgain}</button>}
    </p>
  );
}

/** A table of the class `name`; the first cell of each row is the row's name. */
export function Table({ name, caption, head, rows }: { name?: string; caption?: string; head: string[]; rows: ComponentChildren[][] }) {
  return (
    <table class={name}>
      {caption && <caption>{caption}</caption>}
      <thead>
        <tr>{head.map((name, i) => (name ? <th scope="col" key={i}>{name}</th> : <td key={i} />))}</tr>
      </thead>
      <tbody>
        {rows.map((row, i) => (
          <tr key={i}>{row.map((cell, j) => (j === 0 ? <th scope="row" dir="auto" key={j}>{cell}</th> : <td key={j}>{cell}</td>))}</tr>
        ))}
      </tbody>
    </table>
  );
}

/** The numbers of a view as a table that opens on a click. Screen readers use it in place of the drawing. */
export function Numbers({ head, rows }: { head: string[]; rows: () => string[][] }) {
  const [open, setOpen] = useState(false);
  return (
    <details class="numbers" onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>{words().numbers}</summary>
      {open && (
        <div class="scroll" tabIndex={0}>
          <Table head={head} rows={rows()} />
        </div>
      )}
    </details>
  );
}
