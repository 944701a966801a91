// The field that searches for a token of the text

import { signal } from "@preact/signals";
import { useMemo } from "preact/hooks";
import { LONG_TEXT, queryItems, visibleQueries } from "../state/state";
import { lockQuery } from "../state/texts";
import type { Item } from "../trace/items";
import { words } from "../words";

/** A field that finds a token by its text, makes it the query, and calls `shows` with it. Enter goes to the next token that matches. */
export function Find({ shows }: { shows: (item: Item) => void }) {
  const say = words();
  const sought = useMemo(() => signal(""), []);
  const place = useMemo(() => signal(0), []);
  if (queryItems.value.length <= LONG_TEXT) return null;
  const matches = () => visibleQueries.value.filter((item) => item.text.toLowerCase().includes(sought.value.toLowerCase()));
  const go = (to: number) => {
    const found = sought.value ? matches() : [];
    place.value = found.length ? (to + found.length) % found.length : 0;
    const item = found[place.value];
    if (!item) return;
    lockQuery(item);
    shows(item);
  };
  return (
    <p class="find">
      <input
        type="search"
        aria-label={say.find}
        placeholder={say.find}
        onInput={(event) => ((sought.value = event.currentTarget.value), go(0))}
        onKeyDown={(event) => event.key === "Enter" && go(place.value + 1)}
      />
      {sought.value && <span role="status">{matches().length ? say.found(place.value + 1, matches().length) : say.foundNone}</span>}
    </p>
  );
}
