// The timeline: a canvas that draws what is seen of it. Boxes too narrow to see are drawn as one,
// so that a draw costs no more than looking at the boxes in view.

const layout = {
  gutter: 104, axis: 26, compute: 27, link: 11, linkGap: 2, gap: 9,
  lowest: 13,  // a lane with text in it
  font: '12px system-ui, "DejaVu Sans", sans-serif',
  narrow: '10px system-ui, "DejaVu Sans", sans-serif',
  small: '9px system-ui, "DejaVu Sans", sans-serif',
};

/// The part of time in view, shared by the timeline and the curves.
const view = { start: 0, end: 1, width: 1 };
const timeX = (time) =>
  layout.gutter + (time - view.start) / (view.end - view.start) * (view.width - layout.gutter);
const timeAt = (x) =>
  view.start + (x - layout.gutter) / (view.width - layout.gutter) * (view.end - view.start);

function theme() {
  const style = getComputedStyle(document.documentElement);
  const of = (name) => style.getPropertyValue(`--${name}`).trim();
  return { ground: of("ground"), panel: of("panel"), ink: of("ink"), muted: of("muted"),
    line: of("line"), idle: of("idle"), idleLine: of("idle-line"), accent: of("accent"),
    bad: of("bad") };
}

/// Diagonal lines on a ground.
function hatched(context, ground, line, step) {
  const tile = document.createElement("canvas");
  tile.width = tile.height = step;
  const of = tile.getContext("2d");
  of.fillStyle = ground;
  of.fillRect(0, 0, step, step);
  of.strokeStyle = line;
  of.lineWidth = 1;
  of.beginPath();
  for (const shift of [-step, 0, step]) {
    of.moveTo(shift - 1, step + 1);
    of.lineTo(shift + step + 1, -1);
  }
  of.stroke();
  return context.createPattern(tile, "repeat");
}

/// "#56b4e9" as its three parts.
function partsOf(colour) {
  return [1, 3, 5].map((at) => parseInt(colour.slice(at, at + 2), 16));
}

function mixed(colour, other, share) {
  const parts = partsOf(other);
  const mean = partsOf(colour).map((part, i) => Math.round(part + (parts[i] - part) * share));
  return `#${mean.map((part) => part.toString(16).padStart(2, "0")).join("")}`;
}

/// A kind's colour on the page's ground: on a dark one, links are drawn as thin ticks by some
/// colours that are too dark for that.
function colourOf(kind) {
  const { colour, compute } = kinds[kind];
  return dark.matches && !compute ? mixed(colour, "#ffffff", 0.25) : colour;
}

function fillOf(context, kind) {
  const { hatch } = kinds[kind], colour = colourOf(kind);
  return hatch ? hatched(context, colour, "rgba(0, 0, 0, 0.38)", 5) : colour;
}

/// Marks what is critical, inside a box: black beside white, seen on any colour and by any eye.
function outline(context, left, y, width, height) {
  if (width >= 16) {
    context.strokeStyle = "#ffffff";
    context.lineWidth = 4;
    context.strokeRect(left + 2, y + 2, width - 4, height - 4);
  }
  context.strokeStyle = "#000000";
  context.lineWidth = 2;
  context.strokeRect(left + 1, y + 1, width - 2, height - 2);
}

const dark = matchMedia("(prefers-color-scheme: dark)");
const faded = 0.25;  // what is not critical, where that is shown

/// How much of a scroller is seen when it holds `height`; its canvas, which would widen it, aside.
function seenOf(scroller, height) {
  scroller.querySelector(".spacer").style.height = `${height}px`;
  scroller.querySelector("canvas").style.height = 0;
  return scroller.clientHeight;
}

/// A canvas as wide as its box, sharp on dense screens; gives its context, cleared.
function prepare(canvas, width, height, colours) {
  const density = window.devicePixelRatio || 1;
  const columns = Math.round(width * density), rows = Math.round(height * density);
  if (canvas.width !== columns || canvas.height !== rows) {
    canvas.width = columns;
    canvas.height = rows;
  }
  canvas.style.height = `${height}px`;
  const context = canvas.getContext("2d");
  context.setTransform(density, 0, 0, density, 0, 0);
  context.textBaseline = "middle";
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, width, height);
  return context;
}

/// Round times, about `pixels` apart, with their labels: as many decimals as tell them apart.
function ticksOf(pixels) {
  const wanted = (view.end - view.start) * pixels / (view.width - layout.gutter);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].find((digit) => digit * power >= wanted) * power;
  const [unit, name] =
    [[1e9, "s"], [1e6, "ms"], [1e3, "us"]].find(([size]) => view.end >= size) || [1, "ns"];
  const decimals = Math.max(0, -Math.floor(Math.log10(step / unit) + 1e-9));
  const ticks = [];
  for (let i = Math.ceil(view.start / step); i * step <= view.end; i++) {
    ticks.push({ time: i * step, text: `${(i * step / unit).toFixed(decimals)} ${name}` });
  }
  return ticks;
}

function drawAxis(context, colours, height) {
  context.font = layout.font;
  context.fillStyle = colours.ground;
  context.fillRect(0, 0, view.width, layout.axis);
  for (const { time, text } of ticksOf(90)) {
    const x = timeX(time);
    if (x < layout.gutter) continue;
    context.fillStyle = colours.line;
    context.fillRect(x, layout.axis - 5, 1, 5);
    const half = context.measureText(text).width / 2;
    if (x + half > view.width) continue;
    context.fillStyle = colours.muted;
    context.fillText(text, x - half, layout.axis / 2);
  }
  context.fillStyle = colours.line;
  context.fillRect(0, layout.axis - 1, view.width, 1);
}

class Timeline {
  constructor(scroller) {
    this.scroller = scroller;
    this.canvas = scroller.querySelector("canvas");
    this.show = { links: true, versions: true, idle: true, critical: false, overview: false };
    this.chosen = -1;
    this.columns = new Columns();
  }

  set(frame) {
    this.frame = frame;
    this.chosen = -1;
    this.place();
  }

  /// Where the rows stand: in the overview so low that all are seen at once.
  place() {
    const top = layout.axis + 5;
    let y = this.placeRows(top, 1);
    if (this.show.overview) {
      const seen = parseFloat(getComputedStyle(this.scroller).maxHeight) - 2;  // its frame
      if (y > seen) y = this.placeRows(top, (seen - top) / (y - top));
    }
    const pitch = (y - top) / this.frame.devices;
    this.titled = [1, 2, 5, 10, 20, 50, 100].find((of) => of * pitch >= layout.lowest) || 1000;
    this.height = Math.floor(y);
    this.seen = seenOf(this.scroller, this.height);
  }

  placeRows(top, scale) {
    let y = top;
    this.frame.rows.forEach((row, i, rows) => {
      row.shown = row.compute || this.show.links;
      row.y = y;
      if (!row.shown) return;
      row.height = (row.compute ? layout.compute : layout.link) * scale;
      const more = rows[i + 1]?.device === row.device && this.show.links;
      y += row.height + (more ? layout.linkGap : layout.gap) * scale;
    });
    return y;
  }

  /// Whether the critical path is shown.
  marks() {
    return this.show.critical && this.frame.boxes.critical.length > 0;
  }

  draw() {
    const { frame, scroller, seen: height } = this;
    const colours = theme();
    const context = prepare(this.canvas, view.width, height, colours);
    const fills = {};
    for (const kind of Object.keys(kinds)) fills[kind] = fillOf(context, kind);
    this.columns.set(view.width);
    this.pen = { context, colours, fills, columns: this.columns,
      idle: hatched(context, colours.idle, colours.idleLine, 7) };
    const top = scroller.scrollTop;
    for (let i = 0; i < frame.rows.length; i++) {
      const row = frame.rows[i];
      const y = row.y - top;
      if (!row.shown || y + row.height < layout.axis || y > height) continue;
      context.save();
      context.beginPath();
      const room = Math.min(1, row.height / 10);
      context.rect(layout.gutter, y - room, view.width - layout.gutter, row.height + 2 * room);
      context.clip();
      if (row.compute && this.show.idle) this.drawIdle(row, y);
      this.drawBoxes(row, y);
      context.restore();
      this.drawTitle(row, y);
    }
    if (this.chosen >= 0) this.drawChosen(top);
    drawAxis(context, colours, height);
  }

  drawTitle(row, y) {
    const { context, colours } = this.pen;
    if (row.height < layout.lowest && row.device % this.titled !== 0) return;
    if (!row.compute && row.height < layout.link) return;
    context.font = row.compute ? layout.font : layout.small;
    context.fillStyle = row.compute ? colours.ink : colours.muted;
    const text = row.compute ? `device ${row.device}`
      : row.title.replace(/^send (.*) to/, "$1 \u2192").replace(/^receive (.*) from/, "$1 \u2190");
    context.fillText(text, row.compute ? 8 : 16, y + row.height / 2 + 0.5, layout.gutter - 20);
  }

  drawIdle(row, y) {
    const { context, colours, idle } = this.pen;
    const all = this.frame.idleOf[row.device];
    context.font = layout.small;
    let i = lowerBound(0, all.length, (at) => all[at].end > view.start);
    for (; i < all.length && all[i].start < view.end; i++) {
      const from = Math.max(timeX(all[i].start), layout.gutter);
      const width = Math.min(timeX(all[i].end), view.width) - from;
      if (width < 1) continue;
      context.fillStyle = idle;
      context.fillRect(from, y, width, row.height);
      const text = duration(all[i].end - all[i].start);
      const length = context.measureText(text).width;
      if (length + 12 > width || row.height < layout.lowest) continue;
      const x = from + (width - length) / 2;
      context.fillStyle = colours.idle;
      context.fillRect(x - 3, y + row.height / 2 - 6, length + 6, 12);
      context.fillStyle = colours.muted;
      context.fillText(text, x, y + row.height / 2 + 0.5);
    }
  }

  drawBoxes(row, y) {
    const { boxes } = this.frame, { columns } = this.pen;
    const wide = [];
    columns.clear();
    // Boxes in transit overlap, so that their ends need not ascend.
    const overlapping = row.title === "in transit";
    let i = overlapping ? row.first
      : lowerBound(row.first, row.last, (box) => boxes.end[box] >= view.start);
    for (; i < row.last && boxes.start[i] <= view.end; i++) {
      const from = timeX(boxes.start[i]), to = timeX(boxes.end[i]);
      if (to < layout.gutter) continue;
      if (to - from >= 2 || (boxes.length[i] === 0 && this.hasRoom(row, i, from))) {
        wide.push(i);
      } else {
        columns.add(kindOf(this.frame, i), from, to, !this.marks() || boxes.critical[i] === 1);
      }
    }
    columns.draw(this.pen, row, y, row.compute && this.show.idle);
    for (const box of wide) {
      this.drawBox(row, box, timeX(boxes.start[box]), timeX(boxes.end[box]), y);
    }
  }

  /// A box of no length is marked where it hides nothing: where what is before it begins some
  /// pixels before, or what is after it ends some after.
  hasRoom(row, box, at) {
    const { boxes } = this.frame;
    return box === row.first || at - timeX(boxes.start[box - 1]) >= 4 ||
      box + 1 === row.last || timeX(boxes.end[box + 1]) - at >= 4;
  }

  drawBox(row, box, from, to, y) {
    const { context, colours, fills } = this.pen;
    const kind = kindOf(this.frame, box);
    const marks = this.marks(), critical = marks && this.frame.boxes.critical[box] === 1;
    const alpha = marks && !critical ? faded : 1;
    if (to - from < 2) {  // takes no time, or next to none
      context.globalAlpha = alpha;
      context.fillStyle = colourOf(kind);
      context.fillRect(from - 1.5, y - 1, 3, row.height + 2);
      context.globalAlpha = 1;
      return;
    }
    const left = Math.max(from, layout.gutter - 4), right = Math.min(to, view.width + 4);
    const width = right - left;
    context.globalAlpha = row.title === "in transit" ? 0.55 * alpha : alpha;
    context.fillStyle = fills[kind];
    context.fillRect(left, y, width, row.height);
    context.globalAlpha = 1;
    if (critical && width > 5 && row.height > 6) {
      outline(context, left, y, width, row.height);
    } else if (width > 4 && row.height > 6) {
      context.strokeStyle = "rgba(0, 0, 0, 0.55)";
      context.lineWidth = 1;
      context.strokeRect(left + 0.5, y + 0.5, width - 1, row.height - 1);
    }
    if (row.compute && row.height >= layout.lowest) this.drawNumber(row, box, left, width, y, alpha < 1 ? colours.muted : "#000000");
  }

  /// The microbatch, and which version of the weights it uses: a bar, dark for the odd ones.
  drawNumber(row, box, left, width, y, ink) {
    const { context } = this.pen;
    const version = this.frame.boxes.version[box];
    const bar = this.show.versions && this.frame.several_versions && version >= 0;
    if (bar && width > 4) {
      context.fillStyle = version % 2 === 1 ? "#000000" : "#ffffff";
      context.fillRect(left + 1, y + row.height - 6, width - 2, 5);
    }
    const {version: update, letter} = kinds[kindOf(this.frame, box)];
    const text = update ? letter : numberOf(this.frame, box);
    const font = [layout.font, layout.narrow].find((of) => {
      context.font = of;
      return context.measureText(text).width + 3 <= width;
    });
    if (!font) return;
    const length = context.measureText(text).width;
    context.fillStyle = ink;
    const middle = y + (row.height - (bar ? 6 : 0)) / 2 + 0.5;
    const label = bar ? `v${version}` : "";
    context.font = layout.small;
    const second = bar ? context.measureText(label).width + 3 : 0;
    const both = length + second + 6 <= width;
    const x = left + (width - length - (both ? second : 0)) / 2;
    if (both && bar) context.fillText(label, x + length + 3, middle - 2);
    context.font = font;
    context.fillText(text, x, middle);
  }

  drawChosen(top) {
    const { context, colours } = this.pen;
    const { boxes, rows } = this.frame;
    const row = rows[rowOf(this.frame, this.chosen)];
    if (!row.shown) return;
    const from = timeX(boxes.start[this.chosen]), to = timeX(boxes.end[this.chosen]);
    context.strokeStyle = colours.ground;
    context.lineWidth = 5;
    context.strokeRect(from - 1, row.y - top - 1, to - from + 2, row.height + 2);
    context.strokeStyle = colours.ink;
    context.lineWidth = 2.5;
    context.strokeRect(from - 1, row.y - top - 1, to - from + 2, row.height + 2);
  }

  /// What is at a point of the canvas: a box, idle time, or nothing.
  at(x, y) {
    const { frame } = this;
    if (x < layout.gutter || y < layout.axis) return null;
    const below = y + this.scroller.scrollTop;
    const row = frame.rows.find((of) => of.shown && below >= of.y && below <= of.y + of.height);
    if (!row) return null;
    const { boxes } = frame;
    const time = timeAt(x), near = timeAt(x + 2) - time;
    let i = lowerBound(row.first, row.last, (box) => boxes.start[box] > time + near) - 1;
    let found = -1;
    for (let steps = 0; i >= row.first && steps < 64; i--, steps++) {
      if (boxes.end[i] >= time - near && (found < 0 || boxes.end[i] >= time)) found = i;
      if (boxes.start[i] <= time && boxes.end[i] >= time) break;
    }
    const inside = found >= 0 && boxes.start[found] <= time && boxes.end[found] >= time;
    if (found >= 0 && (inside || !row.compute || boxes.length[found] === 0)) return { box: found };
    if (!row.compute) return null;
    const idle = frame.idleOf[row.device].find((of) => of.start <= time && of.end >= time);
    if (idle) return { idle, device: row.device };
    return found >= 0 ? { box: found } : null;
  }

  /// The box next to the chosen one on its row; of another row the nearest in time.
  step(boxesOn, rowsOn) {
    const { frame } = this;
    const rows = frame.rows.filter((row) => row.shown && row.last > row.first);
    if (rows.length === 0) return;
    if (this.chosen < 0) {
      const { boxes } = frame;
      const [row] = rows;
      this.chosen = Math.min(row.last - 1,
        lowerBound(row.first, row.last, (box) => boxes.end[box] > view.start));
      return;
    }
    const now = rows.indexOf(frame.rows[rowOf(frame, this.chosen)]);
    const row = rows[Math.max(0, Math.min(rows.length - 1, now + rowsOn))];
    if (rowsOn === 0) {
      this.chosen = Math.max(row.first, Math.min(row.last - 1, this.chosen + boxesOn));
      return;
    }
    const start = frame.boxes.start[this.chosen];
    this.chosen = Math.min(row.last - 1,
      lowerBound(row.first, row.last, (box) => frame.boxes.end[box] > start));
  }

  /// Scrolls and moves the view so that the chosen box is seen.
  reveal() {
    const { boxes, rows } = this.frame;
    const row = rows[rowOf(this.frame, this.chosen)];
    const { scroller } = this;
    if (row.y - layout.axis < scroller.scrollTop) scroller.scrollTop = row.y - layout.axis - 8;
    if (row.y + row.height > scroller.scrollTop + this.seen) {
      scroller.scrollTop = row.y + row.height - this.seen + 8;
    }
    const start = boxes.start[this.chosen], end = boxes.end[this.chosen];
    const length = view.end - view.start;
    if (start >= view.start && end <= view.end) return;
    view.start = (start + end) / 2 - length / 2;
    view.end = view.start + length;
  }
}
