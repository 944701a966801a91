// The title of what the page shows, in the language that the reader has chosen

import { course, lessonNumber } from "../state/course";
import { isLongText, trace } from "../state/state";
import { language, words } from "../words";

const TAB_LETTERS = 60; // the most letters of a title in the tab of the browser, as TITLE_LENGTH in views/page/__init__.py

/** The text that the model read; of a long text (see `map` in data.ts), the first 120 letters. */
export const shortText = (text: string) => (isLongText.value ? `${text.slice(0, 120)}…` : text);

/** The title of the lesson, of the worked example, or of the trace: its text, or how many pictures the model read. */
export function pageTitle(): string {
  const say = words();
  const { text, images, spectrogram, worked } = trace.value;
  if (course.value) return course.value.lessons[lessonNumber()].texts[language.value].title;
  if (worked) return worked.texts[language.value].title;
  const mediumTitle = images.length ? say.picturesRead(images.length) : say.recordingRead;
  return shortText(text) || (images.length || spectrogram ? mediumTitle : "");
}

/** The title for the tab of the browser: one short line. */
export function tabTitle(): string {
  const letters = [...pageTitle().trim().replace(/\s+/g, " ")];
  const title = letters.length > TAB_LETTERS ? `${letters.slice(0, TAB_LETTERS - 1).join("")}…` : letters.join("");
  return title ? `${title} · regard` : "regard";
}
