// The field that searches for a token of the text

import { batch, useSignal } from "@preact/signals";
import { LONG_TEXT, locked, queryItems, visibleQueries } from "../state/state";
import { chooseQuery } from "../state/texts";
import type { Item } from "../trace/items";
import { words } from "../words";

/** A field that finds a token by its text, makes it the query, and calls `shows` with it. Enter goes to the next token that matches. */
export function Find({ shows }: { shows: (item: Item) => void }) {
  const say = words();
  const searched = useSignal("");
  const matchIndex = useSignal(0);
  if (queryItems.value.length <= LONG_TEXT) return null;
  const findMatches = () => visibleQueries.value.filter((item) => item.text.toLowerCase().includes(searched.value.toLowerCase()));
  const goToMatch = (index: number) => {
    const matches = searched.value ? findMatches() : [];
    matchIndex.value = matches.length ? index % matches.length : 0;
    const item = matches[matchIndex.value];
    if (!item) return;
    batch(() => {
      chooseQuery(item, 0);
      locked.value = true;
    });
    shows(item);
  };
  return (
    <p class="find">
      <input
        type="search"
        aria-label={say.find}
        placeholder={say.find}
        onInput={(event) => {
          searched.value = event.currentTarget.value;
          goToMatch(0);
        }}
        onKeyDown={(event) => event.key === "Enter" && goToMatch(matchIndex.value + 1)}
      />
      {searched.value && <span role="status">{findMatches().length ? say.found(matchIndex.value + 1, findMatches().length) : say.foundNone}</span>}
    </p>
  );
}
