// The lessons of a course, which regard's Python writes (lessons/course_page.py), and the number of the lesson on the page

import { signal } from "@preact/signals";
import type { Trace } from "../trace/data";
import type { Language } from "../words";
import { linkedSignal } from "./linked-signals";
import { showTrace } from "./state";

/** The text of a lesson in one language. `try`: what the reader can try. */
interface LessonText {
  title: string;
  text: string[]; // paragraphs; words between backticks are code, and a paragraph that begins with "= " is a formula
  try: string[];
}

export interface Lesson {
  name: string;
  views: string[]; // the views beside the text, by the names in their data-view attribute: "pattern"
  commands: string[];
  trace: number | null; // the index, in `traces` of the course, of the trace that the views show; null = the lesson has none
  texts: Record<Language, LessonText>;
}

export interface Course {
  lessons: Lesson[];
  traces: Trace[];
  first: number; // the index of the lesson that is shown first
  language: Language | null; // null = the language of the browser
  site: string | null; // the address of the page that runs the models; null = the course belongs to no site, and is a file of its own
}

export const course = signal<Course | null>(null);

/** The name of the lesson in the address of the page; "" = the address names no lesson, and the page shows the lesson with the index `first`. */
const linkedName = linkedSignal("lesson", "", String, (name) => (course.value?.lessons.some((one) => one.name === name) ? name : undefined));

const numberOf = ({ lessons, first }: Course, name: string): number => {
  const index = lessons.findIndex((lesson) => lesson.name === name);
  return index < 0 ? first : index;
};

export const lessonNumber = (): number => numberOf(course.value!, linkedName.value);

/** The trace of the lesson that is shown first. If this lesson has no trace, the first trace of the course. */
export function firstTrace(opened: Course): Trace {
  const name = new URLSearchParams(location.hash.replace(/^#/, "")).get("lesson") ?? "";
  const lesson = opened.lessons[numberOf(opened, name)];
  return opened.traces[lesson.trace ?? 0];
}

export function openLesson(number: number): void {
  const { lessons, traces } = course.value!;
  const { name, trace } = lessons[number];
  linkedName.value = name;
  if (trace !== null) showTrace(traces[trace]);
  scrollTo(0, 0);
}
