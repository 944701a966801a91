// The lessons of a course, as regard's Python writes them (lessons/course_page.py), and which of them is shown

import { signal } from "@preact/signals";
import type { Trace } from "./data";
import { show } from "./state";
import { linkedSignal } from "./switches";
import type { Language } from "./words";

export interface LessonText {
  title: string;
  text: string[]; // paragraphs; words between backticks are code, and a paragraph that begins with "= " is a formula
  try: string[];
}

export interface Lesson {
  name: string;
  views: string[]; // as elements name them in data-view
  commands: string[];
  trace: number | null; // which of the course's traces is shown
  texts: Record<Language, LessonText>;
}

export interface Course {
  lessons: Lesson[];
  traces: Trace[];
  first: number; // which lesson is shown first
  language: Language | null; // null = that of the browser
}

export const course = signal<Course | null>(null);

/** The name of the lesson that the address of the page names, or "" for the first one. */
const linkedName = linkedSignal("lesson", "", String, (name) => (course.value?.lessons.some((one) => one.name === name) ? name : undefined));

const numberOf = ({ lessons, first }: Course, name: string): number => {
  const found = lessons.findIndex((one) => one.name === name);
  return found < 0 ? first : found;
};

/** The number of the lesson that is shown, from 0. */
export const lessonNumber = (): number => numberOf(course.value!, linkedName.value);

/** The trace of the lesson that the address names. */
export function firstTrace(of: Course): Trace {
  const name = new URLSearchParams(location.hash.replace(/^#/, "")).get("lesson") ?? "";
  return of.traces[of.lessons[numberOf(of, name)].trace ?? 0];
}

export function openLesson(number: number): void {
  const { lessons, traces } = course.value!;
  const { name, trace } = lessons[number];
  linkedName.value = name;
  if (trace !== null) show(traces[trace]);
  scrollTo(0, 0);
}
