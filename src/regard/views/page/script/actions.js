// What the reader does

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

// A token that is out of sight is not the one that is shown
function keepVisible() {
  if (state.query !== null && !positions(queries()).includes(state.query)) change({ query: null, locked: false });
}

function lock(query) {
  const again = state.locked && state.query === query;
  change({ query, locked: !again });
}

// Esc lets go of a kept token first, then of any token
function release() {
  change(state.locked ? { locked: false } : { query: null });
}

function moveQuery(by) {
  const visible = positions(queries());
  const place = state.query === null ? 0 : clamp(visible.indexOf(state.query) + by, visible.length);
  change({ query: visible[place] });
  scrollToToken(visible[place], positions(queries()));
}

// Bring a token into view within its list, leaving the page where it is
function scrollToToken(position, visible = positions(keys())) {
  const [box, row] = [find("lines"), parseFloat(theme("--row"))];
  const top = visible.indexOf(position) * row;
  const inView = top >= box.scrollTop && top <= box.scrollTop + box.clientHeight - 2 * row;
  if (!inView) box.scrollTop = Math.round((top - box.clientHeight / 2) / row) * row;
}

// Always to another whole number of pixels
function zoom(factor) {
  const size = placed.size;
  const wanted = factor > 1 ? Math.max(Math.floor(size) + 1, Math.round(size * factor)) : Math.min(Math.ceil(size) - 1, Math.round(size * factor));
  change({ cellSize: Math.max(1, Math.min(60, wanted)) });
}
