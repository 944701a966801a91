// The page of a course: one lesson at a time, with its text and with views of a trace

import { type ComponentType, h } from "preact";
import { course, lessonNumber, openLesson, type Lesson } from "../state/course";
import { complaint, trace } from "../state/state";
import { AlignmentView } from "../views/alignment/alignment";
import { Blocks } from "../views/blocks";
import { Heads } from "../views/heads/heads";
import { MovementView } from "../views/movement/movement";
import { Pattern } from "../views/pattern/pattern";
import { Sentence } from "../views/sentence/sentence";
import { StepByStep } from "../views/steps/steps";
import { Strongest } from "../views/strongest";
import { ChangesBand, WhatIf } from "../views/what-if";
import { language, words } from "../words";
import { Controls, ExampleControls, TopBar } from "./controls";

const VIEWS: Record<string, ComponentType> = {
  sentence: Sentence,
  pattern: Pattern,
  strongest: Strongest,
  steps: StepByStep,
  blocks: Blocks,
  heads: Heads,
  movement: MovementView,
  "what-if": WhatIf,
  alignment: AlignmentView,
};

export function CoursePage() {
  const say = words();
  const { lessons } = course.value!;
  const number = lessonNumber();
  return (
    <>
      <header class="top">
        <TopBar />
        <nav aria-label={say.lessons}>
          <ol class="stages">
            {lessons.map((one, i) => (
              <li key={one.name}>
                <button
                  type="button"
                  aria-label={`${i + 1} · ${shortTitle(one)}`}
                  aria-current={i === number ? "page" : undefined}
                  class={i < number ? "done" : ""}
                  onClick={() => openLesson(i)}
                >
                  {i + 1}<span> · {shortTitle(one)}</span>
                </button>
              </li>
            ))}
          </ol>
        </nav>
      </header>
      {complaint.value && <p class="notice" role="alert">{complaint.value}</p>}
      <ChangesBand />
      <LessonMain lesson={lessons[number]} />
      <nav class="turn" aria-label={say.turn}>
        {number > 0 && <button type="button" onClick={() => openLesson(number - 1)}>‹ {lessons[number - 1].texts[language.value].title}</button>}
        <span class="gap" />
        {number + 1 < lessons.length && (
          <button type="button" onClick={() => openLesson(number + 1)}>{lessons[number + 1].texts[language.value].title} ›</button>
        )}
      </nav>
      <footer><p>{say.oneFile}</p></footer>
    </>
  );
}

const shortTitle = (lesson: Lesson) => lesson.texts[language.value].title.split(":")[0];

function LessonMain({ lesson }: { lesson: Lesson }) {
  const say = words();
  const { title, text, try: suggestions } = lesson.texts[language.value];
  const hasControls = lesson.views.some((name) => name !== "alignment"); // an alignment has its own head
  return (
    <main class="lesson">
      <h1>{title}</h1>
      {text.map((paragraph) => {
        if (paragraph.startsWith("= ")) return <p class="formula" key={paragraph}>{paragraph.slice(2)}</p>;
        return <p class="prose" key={paragraph}><Prose text={paragraph} /></p>;
      })}
      {trace.value.worked ? lesson.views.length > 0 && <ExampleControls /> : hasControls && <Controls />}
      <div class="lesson-views">{lesson.views.map((name) => h(VIEWS[name], { key: name }))}</div>
      {suggestions.length > 0 && (
        <>
          <h2>{say.tryThis}</h2>
          <ul>{suggestions.map((line) => <li key={line}><Prose text={line} /></li>)}</ul>
        </>
      )}
      <h2>{say.onCommandLine}</h2>
      <pre tabIndex={0}>{lesson.commands.join("\n").split(/(\s)/).map((part, i) => (i % 2 ? part : <span key={i}>{part}</span>))}</pre>
    </main>
  );
}

/** A paragraph of a lesson; words between backticks are shown as code. */
const Prose = ({ text }: { text: string }) => <>{text.split("`").map((part, i) => (i % 2 ? <code key={i}>{part}</code> : part))}</>;
