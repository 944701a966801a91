// The list of the query's strongest keys, or of the head's strongest pairs

let listedFor = ""; // the head and token of the list on the screen
function drawStrongest(read) {
  const wanted = `${state.kind} ${headName()} ${state.query} ${state.hide} ${Boolean(read)}`;
  if (listedFor === wanted) return;
  listedFor = wanted;
  find("top").replaceChildren(...(read ? strongest(read).map(pairItem) : []));
}

function strongest(read) {
  const pairs = [];
  const visible = positions(keys());
  for (const query of state.query === null ? positions(queries()) : [state.query]) {
    for (const key of visible) {
      const units = read(query, key);
      if (units > 0 && (pairs.length < LISTED || units > pairs.at(-1).units)) insert(pairs, { query, key, units });
    }
  }
  return pairs;
}

// Insert a pair into a list in falling order of weight
function insert(pairs, pair) {
  const place = pairs.findIndex((other) => other.units < pair.units);
  pairs.splice(place < 0 ? pairs.length : place, 0, pair);
  pairs.length = Math.min(pairs.length, LISTED);
}

function pairItem({ query, key, units }) {
  const item = element("li");
  const button = element("button");
  const bar = element("i");
  bar.style.width = `${(100 * units) / trace.units}%`;
  const keyLabel = labelOf(key, keys());
  const name = state.query === null ? `${labelOf(query, queries())} → ${keyLabel}` : keyLabel;
  button.type = "button";
  button.append(bar, element("span", name), element("span", number(units)));
  button.title = "show it in the list of tokens";
  button.addEventListener("click", () => {
    change({ key, query });
    scrollToToken(key);
  });
  item.append(button);
  return item;
}
