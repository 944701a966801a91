// The map of all heads

let mapKind = null; // the kind of attention whose heads have buttons
function buildMap() {
  mapKind = state.kind;
  const map = find("map");
  const heads = Math.max(...kindOf().layers.map((layer) => layer.heads));
  map.style.gridTemplateColumns = `max-content repeat(${heads}, minmax(0, 40px))`;
  map.replaceChildren(element("span"));
  for (let head = 0; head < heads; head++) map.append(element("span", heads > 16 && head % 4 ? "" : `H${head}`));
  for (const layer of kindOf().layers) {
    map.append(Object.assign(element("span", `L${layer.layer}`), { className: "layer" }));
    for (let head = 0; head < heads; head++) map.append(head < layer.heads ? mapButton(layer, head) : element("span"));
  }
}

function element(name, text = "") {
  const created = document.createElement(name);
  created.textContent = text;
  return created;
}

function mapButton(layer, head) {
  const button = element("button");
  button.type = "button";
  button.dataset.layer = layer.layer;
  button.dataset.head = head;
  return button;
}

function drawMap() {
  if (mapKind !== state.kind) buildMap();
  const visible = positions(keys());
  const shownQueries = state.query === null ? positions(queries()) : [state.query];
  for (const button of find("map").querySelectorAll("button")) {
    const [layer, head] = [layerOf(Number(button.dataset.layer)), Number(button.dataset.head)];
    const chosen = layer.layer === state.layer && head === state.head;
    const read = reader(layer, head);
    button.setAttribute("aria-current", chosen);
    button.tabIndex = chosen ? 0 : -1;
    drawMapCell(button, read && strongestPair(layer, head, read, shownQueries, visible), read, headName(layer.layer, head), hueOf(head, layer.heads));
  }
}

// The query and key of a head's largest weight; cached, since with every token shown it takes all weights
const strongestCache = new Map();
function strongestPair(layer, head, read, shownQueries, visible) {
  const name = `${layer.weights} ${head} ${state.query} ${state.hide}`;
  if (!strongestCache.has(name)) {
    const pairs = shownQueries.map((query) => largest(read, query, visible));
    strongestCache.set(name, pairs.reduce((best, pair) => (pair.units > best.units ? pair : best), pairs[0]));
  }
  return strongestCache.get(name);
}

function drawMapCell(button, pair, read, name, hue) {
  const label = pair && pair.key >= 0 ? `${name}: ${pairText(pair.query, pair.key, read)}` : name;
  if (button.title !== label) {
    button.title = label;
    button.setAttribute("aria-label", label);
  }
  button.style.background = pair ? shades(hue)[Math.round((255 * pair.units) / trace.units)] : "";
  if (state.patterns && read) drawThumbnail(button, read, hue);
  else button.replaceChildren();
}

// A small picture of a whole pattern: each pixel is the largest of several weights, relative to the largest in its row
function drawThumbnail(button, read, hue) {
  const name = `${hue} ${dark.matches} ${state.hide} ${state.turned}`;
  if (button.firstChild?.dataset.of === name) return;
  const [rows, columns] = [positions(queries()), positions(keys())];
  const [height, width] = [Math.min(THUMBNAIL, rows.length), Math.min(THUMBNAIL, columns.length)];
  const maxima = new Float32Array(height * width).fill(-1); // -1 = all its weights are masked
  rows.forEach((query, row) => {
    const line = Math.floor((row * height) / rows.length) * width;
    columns.forEach((key, column) => {
      const pixel = line + Math.floor((column * width) / columns.length);
      if (!read.masked(query, key)) maxima[pixel] = Math.max(maxima[pixel], read(query, key));
    });
  });
  const canvas = state.turned ? canvasOfSize(height, width) : canvasOfSize(width, height);
  canvas.dataset.of = name;
  const grey = theme("--masked");
  const context = canvas.getContext("2d");
  for (let row = 0; row < height; row++) {
    const line = maxima.subarray(row * width, (row + 1) * width);
    const peak = Math.max(1, ...line);
    line.forEach((units, column) => {
      context.fillStyle = units < 0 ? grey : shades(hue)[Math.round((255 * units) / peak)];
      context.fillRect(...(state.turned ? [row, column] : [column, row]), 1, 1);
    });
  }
  button.replaceChildren(canvas);
}

const canvasOfSize = (width, height) => Object.assign(document.createElement("canvas"), { width, height });
