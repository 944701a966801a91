// Start the script of a page: read the data, choose the page (trace, course or worked example), and listen to the keyboard

import { effect } from "@preact/signals";
import { render } from "preact";
import "./page.css";
import { hueOf } from "./colours";
import { course, firstTrace, type Course } from "./course";
import { CoursePage } from "./course-page";
import type { Trace } from "./data";
import { ExplainPage } from "./explain-page";
import { follow } from "./link";
import { answerer } from "./live";
import { Page } from "./page";
import { answererOf } from "./site/answerer";
import { head, layer, lock, moveQuery, queryItem, release, show, step } from "./state";
import { language } from "./words";

const data = JSON.parse(document.getElementById("trace")!.textContent!) as Trace | Course;
const site = document.getElementById("site");
if (site) answerer.value = answererOf(JSON.parse(site.textContent!));
if ("lessons" in data) {
  course.value = data;
  language.value = data.language ?? language.value;
}
show("lessons" in data ? firstTrace(data) : data);
follow();
effect(() => document.documentElement.style.setProperty("--hue", String(hueOf(head.value, layer.value.heads))));
effect(() => void (document.documentElement.lang = language.value));
render("lessons" in data ? <CoursePage /> : data.worked ? <ExplainPage /> : <Page />, document.getElementById("page")!);

const ARROWS: Record<string, () => void> = {
  ArrowLeft: () => step(0, -1),
  ArrowRight: () => step(0, 1),
  ArrowUp: () => step(-1, 0),
  ArrowDown: () => step(1, 0),
  Escape: release,
};
const IN_LIST: Record<string, () => void> = {
  ArrowLeft: () => moveQuery(-1),
  ArrowRight: () => moveQuery(1),
  ArrowUp: () => moveQuery(-1),
  ArrowDown: () => moveQuery(1),
  Home: () => moveQuery(-Infinity),
  End: () => moveQuery(Infinity),
  Enter: () => queryItem.value && lock(queryItem.value),
  " ": () => queryItem.value && lock(queryItem.value),
};

addEventListener("keydown", (event) => {
  const at = event.target;
  if (!(at instanceof Element)) return;
  if (event.ctrlKey || event.altKey || event.metaKey || at.closest("input, select, textarea, .scroll:focus, h1:focus")) return;
  const action = (at.closest("[role=listbox]") ? IN_LIST[event.key] : undefined) ?? ARROWS[event.key];
  if (!action) return;
  event.preventDefault();
  action();
});
