// The top bar of every page, and the controls that choose a layer, a head and a colour scale

import { Check } from "../parts/panel";
import { course } from "../state/course";
import { answerer } from "../state/questions";
import { anySpecial, chooseHead, chooseKind, colourScale, head, hidden, kind, kindName, layer, layerNumber, query, queryItem, queryItems, trace, wholeWords } from "../state/state";
import { directionOf } from "../trace/items";
import { language, type Language, words } from "../words";

/** The top bar: the name "regard", the choice of the language and, if a site has both pages, a link between the lessons and the page that runs the models. */
export function TopBar() {
  const say = words();
  const brand = <>regard <span>{say.tagline}</span></>;
  const linkToSite = [course.value?.site, say.site, say.siteTitle] as const;
  const linkToCourse = [answerer.value.course, say.lessons, say.courseTitle] as const;
  const [address, name, title] = course.value ? linkToSite : linkToCourse;
  return (
    <div class="bar">
      {trace.value.live ? <h1 class="brand">{brand}</h1> : <p class="brand">{brand}</p>}
      <span class="gap" />
      {address && <a href={`${address}#language=${language.value}`} title={title}>{name}</a>}
      <Select label={say.language} value={language.value} options={{ en: "English", ko: "한국어" }} choose={(name) => (language.value = name as Language)} />
    </div>
  );
}

/** A field with a label, in which the reader chooses a value. `options`: the text for each value. */
function Select({ label, value, options, choose }: { label: string; value: string | number; options: Record<string, string>; choose: (value: string) => void }) {
  return (
    <label>
      {label}{" "}
      <select aria-label={label} value={value} onChange={(event) => choose(event.currentTarget.value)}>
        {Object.entries(options).map(([name, text]) => <option key={name} value={name}>{text}</option>)}
      </select>
    </label>
  );
}

export function Controls() {
  const say = words();
  const kinds = Object.keys(trace.value.kinds);
  const texts = say as unknown as Record<string, string>; // a kind is named by its text in words.ts
  const { map } = trace.value;
  const headNumbers = Array.from({ length: layer.value.heads }, (_, i) => i);
  return (
    <div class="controls" role="group" aria-label={say.shown}>
      {kinds.length > 1 && (
        <Select label={say.attention} value={kindName.value} options={Object.fromEntries(kinds.map((name) => [name, texts[name]]))} choose={chooseKind} />
      )}
      <Select
        label={say.layer}
        value={layerNumber.value}
        options={Object.fromEntries(kind.value.layers.map((one) => [one.layer, String(one.layer)]))}
        choose={(number) => chooseHead(Number(number), head.value)}
      />
      <Select
        label={say.head}
        value={head.value ?? "average"}
        options={{ ...Object.fromEntries(headNumbers.map((n) => [n, String(n)])), average: say.average }}
        choose={(which) => chooseHead(layerNumber.value, which === "average" ? null : Number(which))}
      />
      <span class="gap" />
      <Select
        label={say.scale}
        value={colourScale.value}
        options={{ absolute: say.scaleAbsolute, row: map ? say.scaleView : say.scaleRow, log: map ? say.scaleMillionth : say.scaleLog }}
        choose={(name) => (colourScale.value = name as "absolute" | "row" | "log")}
      />
      {!map && <Check of={wholeWords} label={say.joinWords} title={say.joinTitle} />}
      <Check of={hidden} label={anySpecial.value ? say.hideSpecial : say.hideFirst} title={say.hideTitle} />
    </div>
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
        <Select
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
