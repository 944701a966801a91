// Start the script of a page: read the data, choose the page (trace, course or worked example), and listen to the keyboard

import { effect } from "@preact/signals";
import { render } from "preact";
import "./page.css";
import { followAddress } from "./pages/address";
import { CoursePage } from "./pages/course-page";
import { ExamplePage } from "./pages/example-page";
import { tabTitle } from "./pages/title";
import { TracePage } from "./pages/trace-page";
import { hueOf } from "./parts/colours";
import { onKeys } from "./parts/keys";
import { answererOf } from "./site/answerer";
import { course, firstTrace, type Course } from "./state/course";
import { answerer } from "./state/questions";
import { head, layer, moveQuery, queryItem, showTrace, moveHead } from "./state/state";
import { lockQuery, unlockQuery } from "./state/texts";
import type { Trace } from "./trace/data";
import { language } from "./words";

const data = JSON.parse(document.getElementById("trace")!.textContent!) as Trace | Course;
const site = document.getElementById("site");
if (site) answerer.value = answererOf(JSON.parse(site.textContent!));
if ("lessons" in data) {
  course.value = data;
  language.value = data.language ?? language.value;
}
showTrace("lessons" in data ? firstTrace(data) : data);
followAddress();
effect(() => document.documentElement.style.setProperty("--hue", String(hueOf(head.value, layer.value.heads))));
effect(() => void (document.documentElement.lang = language.value));
effect(() => void (document.title = tabTitle()));
render("lessons" in data ? <CoursePage /> : data.worked ? <ExamplePage /> : <TracePage />, document.getElementById("page")!);

const ARROWS: Record<string, () => void> = {
  ArrowLeft: () => moveHead(0, -1),
  ArrowRight: () => moveHead(0, 1),
  ArrowUp: () => moveHead(-1, 0),
  ArrowDown: () => moveHead(1, 0),
  Escape: unlockQuery,
};
const IN_LIST: Record<string, () => void> = {
  ArrowLeft: () => moveQuery(-1),
  ArrowRight: () => moveQuery(1),
  ArrowUp: () => moveQuery(-1),
  ArrowDown: () => moveQuery(1),
  Home: () => moveQuery(-Infinity),
  End: () => moveQuery(Infinity),
  Enter: () => queryItem.value && lockQuery(queryItem.value),
  " ": () => queryItem.value && lockQuery(queryItem.value),
};

addEventListener("keydown", (event) => {
  const element = event.target;
  if (!(element instanceof Element) || element.closest("input, select, textarea, .scroll:focus, h1:focus")) return; // fields and scrolled elements keep the usual effect of keys
  onKeys(element.closest("[role=listbox]") ? { ...ARROWS, ...IN_LIST } : ARROWS)(event);
});
