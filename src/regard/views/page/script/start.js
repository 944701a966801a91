// Event listeners, and the start of the page

const positionUnder = (event) => {
  const item = event.target.closest("li");
  return item ? Number(item.dataset.position) : null;
};

function cellUnder(event) {
  const [box, bounds] = [find("grid"), find("cells").getBoundingClientRect()];
  const column = Math.floor((event.clientX - bounds.left - shownLayout.left + box.scrollLeft) / shownLayout.size);
  const row = Math.floor((event.clientY - bounds.top - shownLayout.top + box.scrollTop) / shownLayout.size);
  const inside = event.clientX - bounds.left >= shownLayout.left && event.clientY - bounds.top >= shownLayout.top;
  if (!inside || column >= shownLayout.columns.length || row >= shownLayout.rows.length) return null;
  const [query, key] = pairAt(shownLayout, row, column);
  return { query, key };
}

function pointAtCell(event) {
  const cell = shownLayout && cellUnder(event);
  pointer = { x: event.clientX, y: event.clientY };
  placeTip();
  if (cell?.query !== state.cell?.query || cell?.key !== state.cell?.key) change({ cell });
}

function wireTokens() {
  find("queries").addEventListener("pointerover", (event) => {
    const query = positionUnder(event);
    if (query !== null && !state.locked) change({ query });
  });
  find("queries").addEventListener("click", (event) => {
    const query = positionUnder(event);
    if (query !== null) lock(query);
  });
  find("queries").addEventListener("keydown", (event) => {
    const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (by) moveQuery(by);
    else if (["Enter", " "].includes(event.key) && state.query !== null) lock(state.query);
    else return;
    event.preventDefault();
    event.stopPropagation(); // otherwise the arrows would change the layer too
  });
  find("keys").addEventListener("pointerover", (event) => change({ key: positionUnder(event) }));
  find("keys").addEventListener("pointerleave", () => change({ key: null }));
  find("lines").addEventListener("scroll", refresh, { passive: true });
}

function wireGrid() {
  find("cells").addEventListener("pointermove", pointAtCell);
  find("cells").addEventListener("pointerleave", () => change({ cell: null }));
  find("cells").addEventListener("click", (event) => {
    const cell = cellUnder(event);
    if (cell) lock(cell.query);
  });
  find("grid").addEventListener("scroll", refresh, { passive: true });
}

function wireControls() {
  const onChange = (id, act) => find(id).addEventListener("change", () => act(find(id)));
  const onClick = (id, act) => find(id).addEventListener("click", act);
  onChange("kind", (select) => chooseKind(select.value));
  onChange("layer", (select) => chooseHead(Number(select.value), state.head));
  onChange("head", (select) => chooseHead(state.layer, Number(select.value)));
  onChange("scale", (select) => change({ scale: select.value }));
  onChange("hide", (box) => hide(box.checked));
  onClick("heat", () => change({ circles: false }));
  onClick("circles", () => change({ circles: true }));
  onClick("rows", () => change({ turned: false }));
  onClick("columns", () => change({ turned: true }));
  onClick("smaller", () => zoom(1 / 1.4));
  onClick("larger", () => zoom(1.4));
  onClick("fit", () => change({ cellSize: null }));
  onClick("map-token", () => change({ patterns: false }));
  onClick("map-pattern", () => change({ patterns: true }));
  onClick("lock", release);
  onClick("all", () => change({ query: null, locked: false }));
  onClick("map", (event) => {
    const button = event.target.closest("button");
    if (button) chooseHead(Number(button.dataset.layer), Number(button.dataset.head));
  });
}

function wireKeys() {
  const steps = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] };
  document.addEventListener("keydown", (event) => {
    if (event.key === "Escape") release();
    // Selects, scrolled regions and the browser's shortcuts use the arrow keys themselves.
    const taken = event.target.closest("select, #grid, #text") || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey;
    if (!steps[event.key] || taken) return;
    step(...steps[event.key]);
    event.preventDefault();
  });
}

// The start

function fill(id, options) {
  find(id).replaceChildren(...options.map(([value, text]) => Object.assign(element("option", text), { value })));
}

function fillHeadControls() {
  fill("layer", kindOf().layers.map(({ layer }) => [layer, layer]));
  fill("head", Array.from({ length: layerOf().heads }, (_, head) => [head, head]));
}

const counted = (number, noun) => `${number} ${noun}${number === 1 ? "" : "s"}`;

function fillFacts() {
  const counts = kindOf().layers.map((layer) => layer.heads);
  const [fewest, most] = [Math.min(...counts), Math.max(...counts)];
  const sizes = `${counted(counts.length, "layer")} ${fewest === most ? `× ${counted(most, "head")}` : `of ${fewest} to ${most} heads`}`;
  const [source, target] = [trace.source.length, trace.target.length];
  const tokens = source && target ? `${source} source and ${target} target tokens` : counted(source + target, "token");
  find("facts").replaceChildren(element("b", trace.model), ` · ${sizes} · ${tokens}`);
}

function fillHeader() {
  const text = find("text");
  text.textContent = trace.text;
  text.classList.toggle("long", trace.text.length > 240);
  if (text.scrollHeight > text.clientHeight) text.tabIndex = 0; // makes it scrollable with the keyboard
  find("target").hidden = !trace.target_text;
  setText("target", trace.target_text);
  fillFacts();
  setText("precision", precision());
}

function start() {
  fillHeader();
  const kinds = Object.keys(trace.kinds);
  const names = { encoder: "encoder", decoder: "decoder", cross: "cross (target looks at source)" };
  fill("kind", kinds.map((kind) => [kind, names[kind]]));
  find("kind-label").hidden = kinds.length === 1;
  setText("hide-label", anySpecial ? "hide special tokens" : "hide the first token");
  find("hide").parentElement.title = "Weights are not changed, only left out of sight";
  if (keys().length > LONG_TEXT) state.scale = "row";
  fillHeadControls();
  for (const wire of [wireTokens, wireGrid, wireControls, wireKeys]) wire();
  new ResizeObserver(refresh).observe(find("main"));
  dark.addEventListener("change", refresh);
  draw();
  if (state.query !== null) scrollToToken(state.query, positions(queries()));
  loadAll();
}

start();
