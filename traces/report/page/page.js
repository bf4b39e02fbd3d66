// Wires data, timeline and curves to the page: texts, sliders, pointer and keys.

const element = (id) => document.getElementById(id);
const timeline = new Timeline(element("timeline"));
const memory = new Memory(element("memory"));
const current = { frame: null, position: -1 };

function make(tag, text, parent) {
  const made = document.createElement(tag);
  if (text !== undefined) made.textContent = text;
  if (parent) parent.append(made);
  return made;
}

// ---- Drawing ----

let planned = 0;

function draw() {
  cancelAnimationFrame(planned);
  planned = 0;
  const begin = performance.now();
  timeline.draw();
  memory.draw();
  document.documentElement.dataset.drawMs = (performance.now() - begin).toFixed(2);
}

function drawSoon() {
  if (!planned) planned = requestAnimationFrame(draw);
}

/// Keeps some time in view, at least 10 ns of it.
function look(start, end) {
  const whole = Math.max(current.frame.length, 1);
  const length = Math.min(Math.max(end - start, 10), whole * 1.02);
  view.start = Math.min(Math.max(start, -0.01 * whole), 1.01 * whole - length);
  view.end = view.start + length;
}

function zoom(factor, around) {
  look(around - (around - view.start) * factor, around + (view.end - around) * factor);
  drawSoon();
}

function pan(share) {
  const by = (view.end - view.start) * share;
  look(view.start + by, view.end + by);
  drawSoon();
}

function fit() {
  look(0, current.frame.length * 1.01);
  drawSoon();
}

function measure() {
  timeline.place();
  memory.resize();
  view.width = element("timeline").clientWidth;
}

// ---- Texts ----

/// Against what was asked for: a share in percentage points, all else in percent; empty where it is
/// too little to tell.
function changeOf(fact, asked) {
  const change = 100 * (fact.share ? fact.number - asked
    : asked === 0 ? 0 : fact.number / asked - 1);
  if (Math.abs(change) < 0.05) return "";
  const size = Math.abs(change).toFixed(1);
  return `${change > 0 ? "+" : "\u2212"}${size} ${fact.share ? "points" : "%"}`;
}

function showFacts(frame) {
  const list = element("facts");
  list.replaceChildren();
  frame.facts.forEach((fact, i) => {
    const tile = make("div", undefined, list);
    make("dt", fact.name, tile);
    const value = make("dd", fact.text, tile);
    if (report.what_if.length === 0) return;
    const change = changeOf(fact, report.frames[0].facts[i].number);
    make("span", change, value).className = "change";
  });
}

function showTable(frame) {
  const table = element("table");
  const head = make("tr");
  for (const column of frame.table.columns) make("th", column, head).scope = "col";
  table.tHead.replaceChildren(head);
  const rows = frame.table.rows.map((cells) => {
    const row = make("tr");
    for (const cell of cells) make("td", cell, row).className = cell === "NO" ? "no" : "";
    return row;
  });
  table.tBodies[0].replaceChildren(...rows);
  element("table-note").textContent = frame.table.note;
}

function legendItem(list, text, paint) {
  const item = make("li", undefined, list);
  const swatch = make("canvas", undefined, item);
  const density = window.devicePixelRatio || 1;
  swatch.width = 26 * density;
  swatch.height = 14 * density;
  const context = swatch.getContext("2d");
  context.scale(density, density);
  paint(context);
  make("span", text, item);
}

const filled = (fill) => (context) => {
  context.fillStyle = typeof fill === "function" ? fill(context) : fill;
  context.fillRect(0, 0, 26, 14);
};

function showLegends(frame) {
  const list = element("legend"), colours = theme();
  list.replaceChildren();
  const present = new Set(frame.boxes.types.map((type) => type.kind));
  for (const [kind, { title, compute }] of Object.entries(kinds)) {
    if (!present.has(kind) || (!compute && !timeline.show.links)) continue;
    legendItem(list, title, filled((context) => fillOf(context, kind)));
  }
  legendItem(list, "idle: a bubble", filled((context) =>
    hatched(context, colours.idle, colours.idleLine, 7)));
  if (timeline.marks()) {
    legendItem(list, "critical: a longest path through the run", (context) => {
      filled(kinds.forward.colour)(context);
      outline(context, 0, 0, 26, 14);
    });
  }
  if (frame.several_versions && timeline.show.versions) {
    const bar = (colour) => (context) => {
      filled(kinds.forward.colour)(context);
      context.fillStyle = colour;
      context.fillRect(1, 8, 24, 5);
    };
    legendItem(list, "even version of the weights", bar("#ffffff"));
    legendItem(list, "odd version", bar("#000000"));
  }
  const bands = element("memory-legend");
  bands.replaceChildren();
  if (!frame.memory.bytes) {
    legendItem(bands, "microbatches in flight", filled(kinds.forward.colour));
    return;
  }
  const { devices } = frame.memory;
  for (const { key, title, colour } of memoryClasses) {
    if (key !== "activations" && !devices.some((of) => of.bands[key] > 0)) continue;
    legendItem(bands, title, filled(colour));
  }
  const rule = (colour, dash) => (context) => {
    context.strokeStyle = colour;
    context.setLineDash(dash);
    context.lineWidth = 2;
    context.beginPath();
    context.moveTo(0, 7);
    context.lineTo(26, 7);
    context.stroke();
  };
  legendItem(bands, "peak, allocated", rule(colours.ink, []));
  if (devices.some((of) => of.capacity)) {
    legendItem(bands, `capacity: ${bytes(Math.max(...devices.map((of) => of.capacity)))}`,
      rule(colours.bad, [6, 4]));
  }
}

function showChosen() {
  element("chosen").textContent =
    timeline.chosen < 0 ? "" : describe(current.frame, timeline.chosen).join("; ");
}

/// Shows a frame; the part of time in view stays where it is, but for the whole run.
function show(position) {
  const before = current.frame;
  const whole = !before || view.end - view.start >= before.length;
  const frame = decode(report.frames[position]);
  current.frame = frame;
  current.position = position;
  timeline.set(frame);
  memory.set(frame);
  if (whole) look(0, frame.length * 1.01); else look(view.start, view.end);
  showFacts(frame);
  showTable(frame);
  showLegends(frame);
  showChosen();
  element("versions-label").hidden = !frame.several_versions;
  element("overview-label").hidden = frame.devices <= 8;
  element("critical-label").hidden = frame.boxes.critical.length === 0;
  const { dataset } = document.documentElement;
  dataset.frame = position;
  dataset.boxes = frame.count;
  measure();
  draw();
}

// ---- Variations: what_if in the data ----

/// One row of a list for each position.
function makeList(question, i, box) {
  const label = make("label", question.name, box);
  const input = make("select", undefined, label);
  input.id = `list-${i}`;
  const asked = question.frames.indexOf(0);
  question.frames.forEach((frame, at) =>
    make("option", at === asked ? question.asked : report.frames[frame].label, input));
  return { input, asked, set: (at) => { input.selectedIndex = at; }, at: () => input.selectedIndex };
}

function makeSlider(question, i, box) {
  const label = make("label", undefined, box);
  label.htmlFor = `slider-${i}`;
  make("span", question.name, label);
  const output = make("output", undefined, label);
  const input = make("input", undefined, box);
  Object.assign(input, { type: "range", id: `slider-${i}`, min: 0, step: 1,
    max: question.frames.length - 1 });
  const asked = question.frames.indexOf(0);
  const set = (at) => {
    input.value = at;
    const { label: text } = report.frames[question.frames[at]];
    output.textContent = at === asked ? question.asked : text;
    input.setAttribute("aria-valuetext", output.textContent);
  };
  return { input, asked, set, at: () => Number(input.value) };
}

function makeVariations() {
  const questions = report.what_if.map((question, i) => {
    const box = make("div", undefined, element("sliders"));
    box.className = "slider";
    return { ...(question.list ? makeList : makeSlider)(question, i, box), frames: question.frames };
  });
  for (const question of questions) {
    question.set(question.asked);
    question.input.addEventListener("input", () => {
      const at = question.at();
      for (const other of questions) other.set(other === question ? at : other.asked);
      show(question.frames[at]);
    });
  }
  element("what-if").hidden = questions.length === 0 && !report.what_if_note;
  element("what-if-hint").hidden = questions.length === 0;
  element("what-if-note").textContent = report.what_if_note;
}

// ---- Keys ----

function choose(boxesOn, rowsOn) {
  timeline.step(boxesOn, rowsOn);
  if (timeline.chosen >= 0) timeline.reveal();
  showChosen();
  drawSoon();
}

const keys = {
  ArrowLeft: () => pan(-0.1),
  ArrowRight: () => pan(0.1),
  "+": () => zoom(1 / 1.4, middle()),
  "=": () => zoom(1 / 1.4, middle()),
  "-": () => zoom(1.4, middle()),
  0: fit,
  Home: fit,
  ",": () => choose(-1, 0),
  ".": () => choose(1, 0),
  ArrowUp: () => choose(0, -1),
  ArrowDown: () => choose(0, 1),
  Escape: () => { timeline.chosen = -1; showChosen(); drawSoon(); },
};

/// Around what the keyboard zooms: the chosen box, or the middle of what is seen.
function middle() {
  const { boxes } = current.frame;
  const { chosen } = timeline;
  return chosen >= 0 ? (boxes.start[chosen] + boxes.end[chosen]) / 2 : (view.start + view.end) / 2;
}

function listen() {
  for (const id of ["timeline", "memory"]) listenToPointer(element(id));
  element("timeline").addEventListener("keydown", (event) => {
    const action = keys[event.key];
    if (!action || event.ctrlKey || event.metaKey || event.altKey) return;
    event.preventDefault();
    action();
  });
  element("zoom-in").addEventListener("click", () => zoom(1 / 1.4, middle()));
  element("zoom-out").addEventListener("click", () => zoom(1.4, middle()));
  element("fit").addEventListener("click", fit);
  for (const id of ["links", "versions", "idle", "critical", "overview"]) {
    element(id).checked = timeline.show[id];
    element(id).addEventListener("change", () => {
      timeline.show[id] = element(id).checked;
      showLegends(current.frame);
      measure();
      draw();
    });
  }
  addEventListener("resize", () => { measure(); drawSoon(); });
  dark.addEventListener("change", () => { showLegends(current.frame); drawSoon(); });
}

function begin() {
  document.title = report.title;
  element("title").textContent = report.title;
  element("summary").textContent = report.summary;
  element("command").textContent = report.command;
  element("tool").textContent = report.tool;
  for (const line of report.assumptions) make("li", line, element("assumptions"));
  element("assumptions-section").hidden = report.assumptions.length === 0;
  document.documentElement.dataset.frames = report.frames.length;
  timeline.show.links = report.frames[0].devices <= 8;
  timeline.show.overview = !timeline.show.links;
  makeVariations();
  listen();
  show(0);
}

begin();
