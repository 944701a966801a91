// The map of all heads

let mapped = null; // the kind that the buttons are of
function buildMap() {
  mapped = state.kind;
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
  const made = document.createElement(name);
  made.textContent = text;
  return made;
}

function mapButton(layer, head) {
  const button = element("button");
  button.type = "button";
  button.dataset.layer = layer.layer;
  button.dataset.head = head;
  return button;
}

function drawMap() {
  if (mapped !== state.kind) buildMap();
  const visible = positions(keys());
  const looking = state.query === null ? positions(queries()) : [state.query];
  for (const button of find("map").querySelectorAll("button")) {
    const [layer, head] = [layerOf(Number(button.dataset.layer)), Number(button.dataset.head)];
    const chosen = layer.layer === state.layer && head === state.head;
    const read = reader(layer, head);
    button.setAttribute("aria-current", chosen);
    button.tabIndex = chosen ? 0 : -1;
    drawMapCell(button, read && looks(layer, head, read, looking, visible), read, headName(layer.layer, head), hueOf(head, layer.heads));
  }
}

// The strongest look of a head; remembered, for it takes all weights when every token is shown
const looksCache = new Map();
function looks(layer, head, read, looking, visible) {
  const name = `${layer.weights} ${head} ${state.query} ${state.hide}`;
  if (!looksCache.has(name)) {
    const found = looking.map((query) => largest(read, query, visible));
    looksCache.set(name, found.reduce((best, look) => (look.units > best.units ? look : best), found[0]));
  }
  return looksCache.get(name);
}

function drawMapCell(button, look, read, name, hue) {
  const label = look && look.key >= 0 ? `${name}: ${spoken(look.query, look.key, read)}` : name;
  if (button.title !== label) {
    button.title = label;
    button.setAttribute("aria-label", label);
  }
  button.style.background = look ? shades(hue)[Math.round((255 * look.units) / trace.units)] : "";
  if (state.patterns && read) drawThumbnail(button, read, hue);
  else button.replaceChildren();
}

// A whole pattern, small: each pixel the largest weight in its part, relative to the largest in its row
function drawThumbnail(button, read, hue) {
  const name = `${hue} ${dark.matches} ${state.hide} ${state.turned}`;
  if (button.firstChild?.dataset.of === name) return;
  const [rows, columns] = [positions(queries()), positions(keys())];
  const [height, width] = [Math.min(THUMBNAIL, rows.length), Math.min(THUMBNAIL, columns.length)];
  const most = new Float32Array(height * width).fill(-1); // -1 = nothing there but masked weights
  rows.forEach((query, row) => {
    const line = Math.floor((row * height) / rows.length) * width;
    columns.forEach((key, column) => {
      const at = line + Math.floor((column * width) / columns.length);
      if (!read.masked(query, key)) most[at] = Math.max(most[at], read(query, key));
    });
  });
  const canvas = state.turned ? sized(height, width) : sized(width, height);
  canvas.dataset.of = name;
  const grey = theme("--masked");
  const context = canvas.getContext("2d");
  for (let row = 0; row < height; row++) {
    const line = most.subarray(row * width, (row + 1) * width);
    const peak = Math.max(1, ...line);
    line.forEach((units, column) => {
      context.fillStyle = units < 0 ? grey : shades(hue)[Math.round((255 * units) / peak)];
      context.fillRect(...(state.turned ? [row, column] : [column, row]), 1, 1);
    });
  }
  button.replaceChildren(canvas);
}

const sized = (width, height) => Object.assign(document.createElement("canvas"), { width, height });
