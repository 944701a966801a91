// The two lists of tokens, and the lines between them

let listsFor = ""; // the kind of attention of the lists on the screen, and whether tokens are hidden
function buildTokens() {
  const wanted = `${state.kind} ${state.hide}`;
  if (listsFor === wanted) return;
  listsFor = wanted;
  find("queries").replaceChildren(...positions(queries()).map(queryItem));
  find("keys").replaceChildren(...positions(keys()).map(keyItem));
  const twoTexts = kindOf().queries !== kindOf().keys;
  setText("queries-name", twoTexts ? "target (queries)" : "queries");
  setText("keys-name", twoTexts ? "source (keys), weights" : "keys, weights");
  const longest = Math.max(queries().length, keys().length);
  document.documentElement.style.setProperty("--row", `${longest > LONG_TEXT ? 22 : longest > 16 ? 27 : 32}px`);
  const bold = 1.12; // the selected query is bold, and so wider
  document.documentElement.style.setProperty("--query", `calc(min(8.5em, ${Math.ceil(bold * widest("queries"))}px) + 16px)`);
  document.documentElement.style.setProperty("--word", `min(9.5em, ${widest("keys") + 1}px)`);
}

const widest = (list) => Array.from(find(list).children).reduce((most, item) => Math.max(most, item.firstChild.scrollWidth), 0);

function tokenItem(token, position) {
  const item = element("li");
  item.dataset.position = position;
  if (token.special) item.className = "special";
  item.title = token.piece ? `${position}: ${token.piece}` : `token ${position}`;
  item.append(Object.assign(element("span", token.text), { dir: "auto" }));
  return item;
}

function queryItem(position) {
  const item = tokenItem(queries()[position], position);
  item.setAttribute("role", "option");
  item.id = `query-${position}`;
  return item;
}

function keyItem(position) {
  const item = tokenItem(keys()[position], position);
  item.append(element("i"), element("b"));
  return item;
}

function drawTokens(read) {
  buildTokens();
  const list = find("queries");
  for (const item of list.children) item.setAttribute("aria-selected", Number(item.dataset.position) === state.query);
  if (state.query === null) list.removeAttribute("aria-activedescendant");
  else list.setAttribute("aria-activedescendant", `query-${state.query}`);
  const strength = read && strengthScale(read, positions(keys()));
  for (const item of find("keys").children) drawKey(item, Number(item.dataset.position), read, strength);
}

function drawKey(item, key, read, strength) {
  const [word, line, figure] = item.children;
  const oneToken = read && state.query !== null;
  const masked = oneToken && read.masked(state.query, key);
  const units = oneToken ? read(state.query, key) : 0;
  const drawn = oneToken ? strength(state.query, units) : 0;
  item.classList.toggle("near", key === state.key);
  item.classList.toggle("masked", Boolean(masked));
  item.classList.toggle("strong", units >= 0.1 * trace.units);
  item.classList.toggle("none", units === 0);
  word.style.background = drawn > 0.004 ? shades(hueOf(state.head))[Math.round(255 * drawn)] : "";
  word.style.color = textColour(drawn);
  line.style.width = `${drawn * 100}%`;
  figure.textContent = oneToken ? (masked ? "masked" : number(units)) : "";
}

// The lines between the lists, in the part that is in view

function drawLines(read) {
  const [box, canvas] = [find("lines"), find("strings")];
  const height = Math.min(box.clientHeight, Math.max(find("queries").offsetHeight, find("keys").offsetHeight));
  const width = fitGap(canvas);
  const context = clearedCanvas(canvas, width, height);
  if (!read || !width) return;
  const pitch = parseFloat(theme("--row"));
  const [rows, columns] = [positions(queries()), positions(keys())];
  const strength = strengthScale(read, columns);
  const colour = shade(1, hueOf(state.head));
  rows.forEach((query, row) => {
    const from = (row + 0.5) * pitch - box.scrollTop;
    const inView = from > -pitch && from < height + pitch;
    if (state.query === null ? !inView : query !== state.query) return;
    columns.forEach((key, column) => {
      const units = read(query, key);
      if (!lineIsDrawn(query, key, units)) return;
      const to = (column + 0.5) * pitch - box.scrollTop;
      drawLine(context, width, from, to, strength(query, units), colour, key === state.key);
    });
  });
  context.globalAlpha = 1;
}

// Let the canvas fill the gap between the lists, so that its old width does not determine the gap
function fitGap(canvas) {
  canvas.style.width = "100%";
  return canvas.clientWidth;
}

function lineIsDrawn(query, key, units) {
  if (units === 0) return false;
  if (state.query !== null) return true;
  return units >= FAINTEST_LINE * trace.units && (state.key === null || key === state.key);
}

function drawLine(context, width, from, to, strength, colour, near) {
  context.globalAlpha = near ? 1 : 0.1 + 0.85 * strength;
  context.lineWidth = near ? Math.max(2, 8 * strength) : 0.6 + 7 * strength;
  context.strokeStyle = colour;
  context.lineCap = "round";
  context.beginPath();
  context.moveTo(4, from);
  context.bezierCurveTo(width * 0.45, from, width * 0.55, to, width - 6, to);
  context.stroke();
}
