// The strongest keys of the token, or the strongest pairs

let strongestOf = "";
function drawStrongest(read) {
  const wanted = `${state.kind} ${headName()} ${state.query} ${state.hide} ${Boolean(read)}`;
  if (strongestOf === wanted) return;
  strongestOf = wanted;
  find("top").replaceChildren(...(read ? strongest(read).map(lookItem) : []));
}

function strongest(read) {
  const found = [];
  const visible = positions(keys());
  for (const query of state.query === null ? positions(queries()) : [state.query]) {
    for (const key of visible) {
      const units = read(query, key);
      if (units > 0 && (found.length < LISTED || units > found.at(-1).units)) insert(found, { query, key, units });
    }
  }
  return found;
}

function insert(found, look) {
  const place = found.findIndex((other) => other.units < look.units);
  found.splice(place < 0 ? found.length : place, 0, look);
  found.length = Math.min(found.length, LISTED);
}

function lookItem({ query, key, units }) {
  const item = element("li");
  const button = element("button");
  const bar = element("i");
  bar.style.width = `${(100 * units) / trace.units}%`;
  const seen = called(key, keys());
  const name = state.query === null ? `${called(query, queries())} → ${seen}` : seen;
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
