// Draw the whole page, at most once a frame

let frameRequested = false;
function refresh() {
  if (frameRequested) return;
  frameRequested = true;
  requestAnimationFrame(() => {
    frameRequested = false;
    draw();
  });
}

function draw() {
  const layer = layerOf();
  document.documentElement.style.setProperty("--hue", hueOf(state.head));
  const read = reader();
  if (!read) load(layer);
  drawControls();
  drawMap();
  drawTitles();
  drawTokens(read);
  drawLines(read);
  drawStrongest(read);
  drawGrid(read);
  drawTip(read);
}

function drawControls() {
  find("kind").value = state.kind;
  find("layer").value = state.layer;
  find("head").value = state.head;
  find("scale").value = state.scale;
  find("hide").checked = state.hide;
  setPressed("heat", !state.circles);
  setPressed("circles", state.circles);
  setPressed("rows", !state.turned);
  setPressed("columns", state.turned);
  setPressed("fit", state.cellSize === null);
  setPressed("map-token", !state.patterns);
  setPressed("map-pattern", state.patterns);
  setPressed("all", state.query === null);
}

const setPressed = (id, pressed) => find(id).setAttribute("aria-pressed", pressed);
const setText = (id, text) => {
  if (find(id).textContent !== text) find(id).textContent = text;
};

function drawTitles() {
  const oneToken = state.query !== null;
  const word = oneToken ? labelOf(state.query, queries()) : "every token";
  const token = `“${word}”`;
  setText("lines-title", `${headName()} · ${word}`);
  setText("top-title", oneToken ? `Where ${token} looks most in ${headName()}` : `The strongest looks in ${headName()}`);
  setText("map-caption", mapCaption(oneToken ? `of ${token} ` : ""));
  setText("lines-caption", linesCaption(oneToken));
  setText("note", kindOf().note);
  find("note").hidden = !kindOf().note;
  find("lock").hidden = !state.locked;
  if (state.locked) {
    setText("lock", `${word} ✕`);
    find("lock").setAttribute("aria-label", `let go of ${token}`);
  }
}

function linesCaption(oneToken) {
  const allTokens = `lines from ${FAINTEST_LINE} up; hover a token to see its own`;
  const hint = state.locked ? "kept until you press Esc" : oneToken ? "hover a token, click to keep it" : allTokens;
  return state.hide ? `${hint} · hidden tokens keep their weights` : hint;
}

const mapCaption = (ofToken) =>
  state.patterns ? "each head’s whole pattern, every row to its largest weight" : `the largest weight ${ofToken}in each head`;

// Clear a canvas and set its size in CSS pixels, sharp on any screen; return its context
function clearedCanvas(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
