// Around the cells: outlines of the query and the cell under the pointer, labels, readout, tip and legend

// The coordinates of a column or row on the canvas
const xOf = (plan, box, position) => plan.left + plan.columns.indexOf(position) * plan.size - box.scrollLeft;
const yOf = (plan, box, position) => plan.top + plan.rows.indexOf(position) * plan.size - box.scrollTop;

// Outline the row (or column) of the query; drawTick marks it in the margin if cells are too small
function drawOutline(context, plan, box) {
  if (state.query === null) return;
  const [wide, high] = [plan.columns.length * plan.size, plan.rows.length * plan.size];
  context.strokeStyle = theme("--accent");
  context.lineWidth = 1.5;
  if (state.turned) context.strokeRect(xOf(plan, box, state.query) - 1, plan.top + 1 - box.scrollTop, plan.size, high - 2);
  else context.strokeRect(plan.left + 1 - box.scrollLeft, yOf(plan, box, state.query) - 1, wide - 2, plan.size);
}

function drawTick(context, plan, box) {
  if (state.query === null) return;
  context.fillStyle = theme("--ink");
  const thick = Math.max(3, plan.size);
  const middle = (plan.size - thick) / 2;
  if (state.turned) context.fillRect(xOf(plan, box, state.query) + middle, 0, thick, plan.top - 1);
  else context.fillRect(0, yOf(plan, box, state.query) + middle, plan.left - 1, thick);
}

function drawCellOutline(context, plan, box) {
  const [column, row] = state.turned ? [state.cell.query, state.cell.key] : [state.cell.key, state.cell.query];
  context.strokeStyle = theme("--ink");
  context.lineWidth = 2;
  context.strokeRect(xOf(plan, box, column) - 1, yOf(plan, box, row) - 1, plan.size, plan.size);
}

function drawLabels(context, plan, view, box) {
  const font = Math.min(13, Math.max(9, plan.size * 0.62));
  const marked = markedTokens();
  const label = (text, room, bold) => {
    context.font = `${bold ? 650 : 400} ${font}px ${theme("--sans")}`;
    context.fillStyle = theme(bold ? "--ink" : "--soft");
    context.fillText(shortened(context, text, room), 0, 0);
  };
  const half = (plan.size - 1) / 2;
  context.textBaseline = "middle";
  context.textAlign = "right";
  plan.rows.forEach((position, row) => {
    const y = plan.top + row * plan.size - box.scrollTop + half;
    if (y < plan.top || y > view.height) return;
    context.save();
    context.translate(plan.left - 7, y);
    label(plan.names.down[position].text, plan.left - 10, marked.down === position);
    context.restore();
  });
  context.textAlign = "left";
  plan.columns.forEach((position, column) => {
    const x = plan.left + column * plan.size - box.scrollLeft + half;
    if (x < plan.left || x > view.width) return;
    context.save();
    context.translate(x, plan.top - 7);
    context.rotate(-Math.PI / 2);
    label(plan.names.across[position].text, plan.top - 10, marked.across === position);
    context.restore();
  });
}

function markedTokens() {
  const query = state.cell ? state.cell.query : state.query;
  const key = state.cell ? state.cell.key : state.key;
  return state.turned ? { across: query, down: key } : { across: key, down: query };
}

function shortened(context, text, room) {
  if (context.measureText(text).width <= room) return text;
  let start = text;
  while (start && context.measureText(`${start}…`).width > room) start = start.slice(0, -1);
  return `${start}…`;
}

function drawReadout(read) {
  const pair = state.cell ?? (state.query !== null && state.key !== null ? { query: state.query, key: state.key } : null);
  find("readout").classList.toggle("quiet", !pair);
  setText("readout", pair ? pairText(pair.query, pair.key, read) : "hover a cell to read it, click to keep its token");
}

// The weight of the cell under the pointer, in a tip beside the pointer
let pointer = { x: 0, y: 0 };
function drawTip(read) {
  find("tip").hidden = !state.cell || !read;
  if (find("tip").hidden) return;
  setText("tip", pairText(state.cell.query, state.cell.key, read));
  placeTip();
}

function placeTip() {
  const tip = find("tip");
  const left = Math.min(pointer.x + 14, innerWidth - tip.offsetWidth - 8);
  tip.style.transform = `translate(${Math.max(8, left)}px, ${Math.max(4, pointer.y - tip.offsetHeight - 10)}px)`;
}

function drawLegend() {
  const most = state.scale === "row" ? "each token’s largest weight" : "1";
  setText("high", state.circles ? `the area of a circle is the weight; a full one is ${most}` : most);
  find("ramp").hidden = state.circles;
  find("masked-legend").hidden = !layerOf().mask;
}
