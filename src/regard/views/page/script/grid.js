// The grid of weights: only the rows and columns in view are drawn

function layout() {
  const [across, down] = state.turned ? [queries(), keys()] : [keys(), queries()];
  const [columns, rows] = [positions(across), positions(down)];
  const box = find("grid");
  const least = state.circles ? SMALLEST_CIRCLE_CELL : 1;
  const margins = { left: labelWidth(down, rows), top: labelWidth(across, columns) };
  const fitting = Math.min(44, (box.clientWidth - margins.left) / columns.length);
  const size = Math.max(least, state.cellSize ?? (fitting < 4 ? Math.floor(fitting) || 1 : fitting));
  if (size < LEAST_LABELLED) Object.assign(margins, { left: 6, top: 6 });
  return { rows, columns, size, ...margins, names: { across, down } };
}

function labelWidth(tokens, positions) {
  const context = find("cells").getContext("2d");
  context.font = `650 13px ${theme("--sans")}`;
  const widths = positions.slice(0, 400).map((position) => context.measureText(tokens[position].text).width);
  return Math.ceil(Math.min(104, Math.max(0, ...widths))) + 12;
}

let shownLayout = null; // the layout on the screen, to find the cell under the pointer
function drawGrid(read) {
  const box = find("grid");
  const plan = (shownLayout = layout());
  const [width, height] = [plan.left + plan.columns.length * plan.size, plan.top + plan.rows.length * plan.size];
  const view = { width: Math.min(box.clientWidth, Math.ceil(width)), height: Math.min(maxHeight(box), Math.ceil(height)) };
  // The extent makes the grid scroll; it lies below the canvas, so it needs only the rest of the size.
  find("extent").style.width = `${Math.ceil(width)}px`;
  find("extent").style.height = `${Math.max(0, Math.ceil(height) - view.height)}px`;
  const canvas = find("cells");
  canvas.style.width = `${view.width}px`;
  canvas.setAttribute("aria-label", `${headName()}: ${queries().length} queries by ${keys().length} keys`);
  const context = clearedCanvas(canvas, view.width, view.height);
  if (read) drawCells(context, plan, view, box, cellPainter(context, read, plan));
  if (plan.size >= LEAST_LABELLED) drawLabels(context, plan, view, box);
  if (read) drawReadout(read);
  drawLegend();
}

const maxHeight = (box) => parseFloat(getComputedStyle(box).maxHeight) || 600;
const pairAt = (plan, row, column) =>
  state.turned ? [plan.columns[column], plan.rows[row]] : [plan.rows[row], plan.columns[column]];

function drawCells(context, plan, view, box, paint) {
  const first = (scroll) => Math.floor(scroll / plan.size);
  const last = (scroll, room, count) => Math.min(count, Math.ceil((scroll + room) / plan.size));
  const rows = [first(box.scrollTop), last(box.scrollTop, view.height - plan.top, plan.rows.length)];
  const columns = [first(box.scrollLeft), last(box.scrollLeft, view.width - plan.left, plan.columns.length)];
  context.save();
  context.beginPath();
  context.rect(plan.left, plan.top, view.width, view.height);
  context.clip();
  if (plan.size < 3) paint.pixels(rows, columns, box);
  else {
    for (let row = rows[0]; row < rows[1]; row++) {
      for (let column = columns[0]; column < columns[1]; column++) {
        const [x, y] = [plan.left + column * plan.size - box.scrollLeft, plan.top + row * plan.size - box.scrollTop];
        paint.cell(...pairAt(plan, row, column), x, y);
      }
    }
  }
  if (plan.size >= LEAST_OUTLINED) drawOutline(context, plan, box);
  if (state.cell && plan.size >= LEAST_OUTLINED) drawCellOutline(context, plan, box);
  context.restore();
  if (plan.size < LEAST_OUTLINED) drawTick(context, plan, box);
}

function cellPainter(context, read, plan) {
  const strength = strengthScale(read, positions(keys()));
  const colours = shades(hueOf(state.head));
  const [grey, hatch] = [theme("--masked"), hatching(context)];
  const gap = plan.size >= 12 ? 1.5 : plan.size >= 6 ? 1 : 0;
  const size = plan.size;
  const empty = theme("--zero");
  const level = (query, key) => Math.round(255 * strength(query, read(query, key)));

  function cell(query, key, x, y) {
    const masked = read.masked(query, key);
    context.fillStyle = masked ? (size >= 6 ? hatch : grey) : state.circles ? empty : colours[level(query, key)];
    if (size >= 14) roundRect(context, x, y, size - gap, 3);
    else context.fillRect(x, y, size - gap, size - gap);
    if (state.circles && !masked) circle(query, key, x + (size - gap) / 2, y + (size - gap) / 2);
  }

  // The area is in proportion to the weight, so the radius to its square root
  function circle(query, key, x, y) {
    const radius = ((size - gap) / 2) * Math.sqrt(strength(query, read(query, key)));
    if (radius < 0.2) return;
    context.fillStyle = colours[255];
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
    context.fill();
  }

  // Cells too small to be drawn as rectangles: an image of one pixel for each cell, enlarged
  function pixels(rows, columns, box) {
    const [width, height] = [columns[1] - columns[0], rows[1] - rows[0]];
    if (width <= 0 || height <= 0) return;
    const bytes = bytesOf([...colours, grey]);
    const image = new Uint32Array(width * height);
    for (let row = 0; row < height; row++) {
      for (let column = 0; column < width; column++) {
        const [query, key] = pairAt(plan, rows[0] + row, columns[0] + column);
        image[row * width + column] = read.masked(query, key) ? bytes[256] : bytes[level(query, key)];
      }
    }
    const canvas = new OffscreenCanvas(width, height);
    canvas.getContext("2d").putImageData(new ImageData(new Uint8ClampedArray(image.buffer), width, height), 0, 0);
    context.imageSmoothingEnabled = false;
    const [x, y] = [plan.left + columns[0] * size - box.scrollLeft, plan.top + rows[0] * size - box.scrollTop];
    context.drawImage(canvas, x, y, width * size, height * size);
  }

  return { cell, pixels };
}

function roundRect(context, x, y, size, radius) {
  context.beginPath();
  context.roundRect(x, y, size, size, radius);
  context.fill();
}

function hatching(context) {
  const tile = new OffscreenCanvas(6, 6);
  const pen = tile.getContext("2d");
  pen.fillStyle = theme("--masked");
  pen.fillRect(0, 0, 6, 6);
  pen.strokeStyle = theme("--masked-line");
  pen.beginPath();
  for (const shift of [-6, 0, 6]) {
    pen.moveTo(shift - 1, 7);
    pen.lineTo(shift + 7, -1);
  }
  pen.stroke();
  return context.createPattern(tile, "repeat");
}
