// Boxes too narrow to see each: a column of pixels is drawn in the mean of the colours of what takes
// its time, each by its share, and what is left of it in the ground's.

const leastSeen = 0.85;  // how strongly a lone tick on a link is drawn, however short it is

class Columns {
  constructor() {
    this.strip = document.createElement("canvas");
    this.strip.height = 1;
    this.shares = new Map();  // of a column, by kind
  }

  /// For a canvas so wide.
  set(width) {
    const density = window.devicePixelRatio || 1;
    const count = Math.max(1, Math.round(width * density));
    if (count === this.count && density === this.density) return;
    Object.assign(this, { count, density, width });
    this.strip.width = count;
    this.shares.clear();
    this.strong = new Uint8Array(count);
  }

  clear() {
    for (const share of this.shares.values()) share.fill(0);
    this.strong.fill(0);
    this.first = this.count;
    this.last = -1;
  }

  /// `strong`: not to be faded.
  add(kind, from, to, strong) {
    if (!this.shares.has(kind)) this.shares.set(kind, new Float32Array(this.count));
    const share = this.shares.get(kind);
    const start = Math.max(from * this.density, 0), end = Math.min(to * this.density, this.count);
    for (let at = Math.floor(start); at < this.count && at <= end; at++) {
      share[at] += Math.max(0, Math.min(end, at + 1) - Math.max(start, at));
      if (strong) this.strong[at] = 1;
      this.first = Math.min(this.first, at);
      this.last = Math.max(this.last, at);
    }
  }

  /// What is busy of each column, and those of a tick that stands alone on a link at least so much
  /// that it is seen.
  busyColumns(row) {
    const busy = new Float32Array(this.count);
    for (const share of this.shares.values()) {
      for (let at = this.first; at <= this.last; at++) busy[at] += share[at];
    }
    for (let at = this.first, end = at; at <= this.last; at = end + 1) {
      for (end = at; end <= this.last && busy[end] > 0;) end++;
      const least = !row.compute && end - at <= 2 ? leastSeen : 0;
      for (let i = at; i < end; i++) busy[i] = Math.min(1, Math.max(busy[i], least));
    }
    return busy;
  }

  draw(pen, row, y, idle) {
    if (this.last < this.first) return;
    const ground = partsOf(idle ? pen.colours.idle : pen.colours.ground);
    const here = [...this.shares].map(
      ([kind, share]) => ({ parts: partsOf(colourOf(kind)), share }));
    const busy = this.busyColumns(row);
    const context = this.strip.getContext("2d");
    const image = context.createImageData(this.count, 1);
    for (let at = this.first; at <= this.last; at++) {
      if (busy[at] === 0) continue;
      const total = here.reduce((sum, { share }) => sum + share[at], 0);
      const weight = busy[at] * (this.strong[at] ? 1 : faded);
      for (let part = 0; part < 3; part++) {
        const sum = here.reduce((so, { parts, share }) => so + parts[part] * share[at], 0);
        image.data[4 * at + part] = ground[part] + (sum / total - ground[part]) * weight;
      }
      image.data[4 * at + 3] = 255;
    }
    context.putImageData(image, 0, 0);
    pen.context.imageSmoothingEnabled = false;
    const width = this.count / this.density;
    pen.context.drawImage(this.strip, 0, 0, this.count, 1, 0, y, width, row.height);
  }
}
