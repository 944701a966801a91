// The reader's actions: each changes the state

function change(changes) {
  Object.assign(state, changes);
  refresh();
}

function chooseKind(kind) {
  const sameQueries = trace.kinds[kind].queries === kindOf().queries;
  change({ kind, key: null, cell: null, ...(sameQueries ? {} : { query: null, locked: false }) });
  const nearest = layerOf() ?? kindOf().layers[0];
  change({ layer: nearest.layer, head: Math.min(state.head, nearest.heads - 1) });
  keepVisible();
  fillHeadControls();
  fillFacts();
}

function chooseHead(layer, head) {
  const inMap = document.activeElement?.closest?.("#map");
  change({ layer, head: Math.min(head, layerOf(layer).heads - 1) });
  fillHeadControls();
  if (inMap) find("map").querySelector(`[data-layer="${state.layer}"][data-head="${state.head}"]`)?.focus();
}

function step(layers, heads) {
  const numbers = kindOf().layers.map((layer) => layer.layer);
  const layer = numbers[clamp(numbers.indexOf(state.layer) + layers, numbers.length)];
  chooseHead(layer, clamp(state.head + heads, layerOf(layer).heads));
}

const clamp = (wanted, count) => Math.max(0, Math.min(count - 1, wanted));

function hide(hidden) {
  change({ hide: hidden, key: null, cell: null });
  keepVisible();
}

// Show every token if the token that was shown is hidden now
function keepVisible() {
  if (state.query !== null && !positions(queries()).includes(state.query)) change({ query: null, locked: false });
}

function lock(query) {
  const again = state.locked && state.query === query;
  change({ query, locked: !again });
}

// Unlock the locked token; if no token is locked, show every token
function release() {
  change(state.locked ? { locked: false } : { query: null });
}

function moveQuery(by) {
  const visible = positions(queries());
  const place = state.query === null ? 0 : clamp(visible.indexOf(state.query) + by, visible.length);
  change({ query: visible[place] });
  scrollToToken(visible[place], positions(queries()));
}

// Scroll a token into view within its list, without scrolling the page
function scrollToToken(position, visible = positions(keys())) {
  const [box, row] = [find("lines"), parseFloat(theme("--row"))];
  const top = visible.indexOf(position) * row;
  const inView = top >= box.scrollTop && top <= box.scrollTop + box.clientHeight - 2 * row;
  if (!inView) box.scrollTop = Math.round((top - box.clientHeight / 2) / row) * row;
}

// Change the size of the grid's cells by a factor, by at least one whole pixel
function zoom(factor) {
  const size = shownLayout.size;
  const wanted = factor > 1 ? Math.max(Math.floor(size) + 1, Math.round(size * factor)) : Math.min(Math.ceil(size) - 1, Math.round(size * factor));
  change({ cellSize: Math.max(1, Math.min(60, wanted)) });
}
