"use strict";
// The data of the page: columns of integers, decoded when their frame is first shown.

const report = JSON.parse(document.getElementById("data").textContent);

// The row of each kind of op (op_kind.h), by its name: title, colour, `hatch`, a second sign
// besides the colour; `phrase` stands before its microbatch, if that says which it is; `version`:
// it makes one of the weights; `compute` tells those of a device from those of links.
const { kinds } = report;

// From the bottom of the stack.
const memoryClasses = [
  { key: "weights", title: "weights", colour: "#0072b2" },
  { key: "versions", title: "further versions", colour: "#56b4e9" },
  { key: "gradients", title: "gradients", colour: "#d55e00" },
  { key: "optimizer", title: "optimizer", colour: "#cc79a7" },
  { key: "buffers", title: "buffers", colour: "#9aa0a8" },
  { key: "activations", title: "activations in use", colour: "#009e73" },
];

/// A frame with typed columns: boxes by row, ascending in time, start and end in nanoseconds.
function decode(frame) {
  if (frame.decoded) return frame;
  const { boxes, rows, idle } = frame;
  const count = boxes.type.length;
  boxes.start = new Float64Array(count);
  boxes.end = new Float64Array(count);
  let box = 0;
  for (const row of rows) {
    row.first = box;
    row.last = box + row.boxes;
    for (let free = 0; box < row.last; box++) {
      boxes.start[box] = free + boxes.gap[box];
      free = boxes.end[box] = boxes.start[box] + boxes.length[box];
    }
  }
  frame.count = count;
  frame.idleOf = Array.from({ length: frame.devices }, () => []);
  idle.device.forEach((device, i) => {
    frame.idleOf[device].push(
      { start: idle.start[i], end: idle.start[i] + idle.length[i], cause: idle.cause[i] });
  });
  frame.decoded = true;
  return frame;
}

function rowOf(frame, box) {
  let low = 0, high = frame.rows.length - 1;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (frame.rows[middle].last > box) high = middle; else low = middle + 1;
  }
  return low;
}

/// The first of [first, last) for which `reached` holds; it holds for all after it.
function lowerBound(first, last, reached) {
  while (first < last) {
    const middle = (first + last) >> 1;
    if (reached(middle)) last = middle; else first = middle + 1;
  }
  return first;
}

function digits(value, unit) {
  return `${+value.toPrecision(4)} ${unit}`;
}

function duration(ns) {
  if (ns === 0) return "0";
  const size = Math.abs(ns);
  if (size >= 1e9) return digits(ns / 1e9, "s");
  if (size >= 1e6) return digits(ns / 1e6, "ms");
  return size >= 1e3 ? digits(ns / 1e3, "us") : digits(ns, "ns");
}

function bytes(count) {
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (Math.abs(count) >= 1024 && unit + 1 < units.length) {
    count /= 1024;
    unit++;
  }
  return digits(count, units[unit]);
}

/// 3, 3' on the second of two stages of a device, 3c on the third of several.
function numberOf(frame, box) {
  const { chunk } = frame.boxes.types[frame.boxes.type[box]];
  const number = String(frame.boxes.microbatch[box]);
  if (frame.chunks < 2 || (frame.chunks === 2 && chunk === 0)) return number;
  return number + (frame.chunks === 2 ? "'" : String.fromCharCode(97 + chunk % 26));
}

function kindOf(frame, box) {
  return frame.boxes.types[frame.boxes.type[box]].kind;
}

/// "forward of microbatch 3, stage 1": a box in words.
function nameOf(frame, box) {
  const { kind, stage } = frame.boxes.types[frame.boxes.type[box]];
  const { boxes } = frame;
  const {title, phrase, version} = kinds[kind];
  if (version) return `${title} of stage ${stage} to version ${boxes.version[box]}`;
  return phrase ? `${phrase} microbatch ${boxes.microbatch[box]}, stage ${stage}` : title;
}

function describe(frame, box) {
  const { boxes } = frame;
  const row = frame.rows[rowOf(frame, box)];
  const lines = [
    nameOf(frame, box),
    `device ${row.device}, ${row.title}`,
    `${duration(boxes.start[box])} to ${duration(boxes.end[box])}: ${duration(boxes.length[box])}`,
  ];
  if (boxes.critical[box]) lines.push("critical: longer, it would make the run longer");
  if (boxes.version[box] >= 0 && !kinds[kindOf(frame, box)].version) {
    lines.push(`reads version ${boxes.version[box]} of the weights`);
  }
  return lines;
}

function describeIdle(frame, device, idle) {
  const last = idle.end >= frame.length;
  const reason = idle.cause >= 0
    ? `waits for the ${nameOf(frame, idle.cause)}, on device ${
      frame.rows[rowOf(frame, idle.cause)].device}`
    : last ? "nothing left to do" : "waits for its turn";
  return [`idle: ${duration(idle.end - idle.start)}`, `device ${device}, from ${
    duration(idle.start)} to ${duration(idle.end)}`, reason];
}
