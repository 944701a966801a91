// Drawing: everything, once a frame at most

let due = false;
function refresh() {
  if (due) return;
  due = true;
  requestAnimationFrame(() => {
    due = false;
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
  press("heat", !state.circles);
  press("circles", state.circles);
  press("rows", !state.turned);
  press("columns", state.turned);
  press("fit", state.cellSize === null);
  press("map-token", !state.patterns);
  press("map-pattern", state.patterns);
  press("all", state.query === null);
}

const press = (id, pressed) => find(id).setAttribute("aria-pressed", pressed);
const say = (id, text) => {
  if (find(id).textContent !== text) find(id).textContent = text;
};

function drawTitles() {
  const own = state.query !== null;
  const word = own ? called(state.query, queries()) : "every token";
  const token = `“${word}”`;
  say("lines-title", `${headName()} · ${word}`);
  say("top-title", own ? `Where ${token} looks most in ${headName()}` : `The strongest looks in ${headName()}`);
  say("map-caption", mapCaption(own ? `of ${token} ` : ""));
  say("lines-caption", linesCaption(own));
  say("reading", kindOf().reading);
  find("reading").hidden = !kindOf().reading;
  find("lock").hidden = !state.locked;
  if (state.locked) {
    say("lock", `${word} ✕`);
    find("lock").setAttribute("aria-label", `let go of ${token}`);
  }
}

function linesCaption(own) {
  const faintest = `lines from ${FAINTEST_LINE} up; hover a token to see its own`;
  const what = state.locked ? "kept until you press Esc" : own ? "hover a token, click to keep it" : faintest;
  return state.hide ? `${what} · hidden tokens keep their weights` : what;
}

const mapCaption = (whose) =>
  state.patterns ? "each head’s whole pattern, every row to its largest weight" : `the largest weight ${whose}in each head`;

// A canvas of a size in CSS pixels, cleared, sharp on any screen
function cleared(canvas, width, height) {
  const ratio = devicePixelRatio || 1;
  const [across, down] = [Math.round(width * ratio), Math.round(height * ratio)];
  if (canvas.width !== across || canvas.height !== down) Object.assign(canvas, { width: across, height: down });
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(ratio, 0, 0, ratio, 0, 0);
  context.clearRect(0, 0, width, height);
  return context;
}
