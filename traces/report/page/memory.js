// What each device holds through time, on the timeline's scale: what stands all run long, and on it
// what the curve adds.

const strips = { height: 58, gap: 12, top: layout.axis + 8, all: 400 };

class Memory {
  constructor(scroller) {
    this.scroller = scroller;
    this.canvas = scroller.querySelector("canvas");
  }

  set(frame) {
    this.memory = frame.memory;
    this.most = 1;
    for (const of of this.memory.devices) {
      of.most = of.curve.value.reduce((most, value) => Math.max(most, value), 0);
      this.most = Math.max(this.most, this.base(of) + of.most, of.peak || 0, of.capacity || 0);
    }
    this.tick = 2 ** Math.floor(Math.log2(this.most)) / 2;
    strips.height = Math.min(Math.max(strips.all / frame.devices - strips.gap, 44), 88);
    this.height = strips.top + frame.devices * (strips.height + strips.gap);
    this.resize();
  }

  resize() {
    this.seen = seenOf(this.scroller, this.height);
  }

  /// Bytes that stand all run long.
  base(of) {
    return of.bands ? Object.values(of.bands).reduce((sum, band) => sum + band, 0) : 0;
  }

  draw() {
    const { seen: height } = this, colours = theme();
    const context = prepare(this.canvas, view.width, height, colours);
    const top = this.scroller.scrollTop;
    this.memory.devices.forEach((of, device) => {
      const y = strips.top + device * (strips.height + strips.gap) - top;
      if (y + strips.height < 0 || y > height) return;
      this.drawStrip(context, colours, of, device, y);
    });
    drawAxis(context, colours, height);
  }

  drawStrip(context, colours, of, device, y) {
    const bottom = y + strips.height;
    const up = (value) => bottom - value / this.most * strips.height;
    context.save();
    context.beginPath();
    context.rect(layout.gutter, y - 2, view.width - layout.gutter, strips.height + 4);
    context.clip();
    context.fillStyle = colours.panel;
    context.fillRect(layout.gutter, y, view.width, strips.height);
    let base = 0;
    for (const { key, colour } of of.bands ? memoryClasses : []) {
      if (key === "activations") continue;
      context.fillStyle = colour;
      context.fillRect(layout.gutter, up(base + of.bands[key]), view.width,
        up(base) - up(base + of.bands[key]));
      base += of.bands[key];
    }
    this.drawCurve(context, of, base, up);
    this.drawLimits(context, colours, of, up);
    context.restore();
    this.drawTicks(context, colours, of, up);
    context.font = layout.font;
    context.fillStyle = colours.ink;
    context.fillText(`device ${device}`, 8, y + strips.height / 2 - 8, layout.gutter - 54);
    context.font = layout.small;
    context.fillStyle = colours.muted;
    const peak = of.bands ? bytes(of.peak) : `at most ${of.most}`;
    context.fillText(peak, 8, y + strips.height / 2 + 8, layout.gutter - 54);
  }

  drawCurve(context, of, base, up) {
    const { time, value } = of.curve;
    const right = view.width + 1;
    context.beginPath();
    let i = Math.max(0, lowerBound(0, time.length, (at) => time[at] > view.start) - 1);
    context.moveTo(layout.gutter - 1, up(base));
    let drawn = -1;  // several steps within a pixel are drawn as the highest of them
    for (; i < time.length && time[i] <= view.end; i++) {
      let highest = value[i];
      const x = Math.max(timeX(time[i]), layout.gutter - 1);
      while (i + 1 < time.length && timeX(time[i + 1]) < x + 0.5) {
        highest = Math.max(highest, value[++i]);
      }
      if (drawn >= 0) context.lineTo(x, up(base + drawn));
      context.lineTo(x, up(base + highest));
      drawn = value[i];
    }
    const end = Math.min(right, timeX(current.frame.length));
    context.lineTo(end, up(base + Math.max(drawn, 0)));
    context.lineTo(end, up(base));
    context.fillStyle = of.bands ? memoryClasses.at(-1).colour : kinds.forward.colour;
    context.fill();
  }

  /// Two or three values with their lines: halves of a power of two.
  drawTicks(context, colours, of, up) {
    context.font = layout.small;
    for (let value = this.tick; value <= this.most; value += this.tick) {
      if (value < 1) continue;  // half a microbatch
      const text = of.bands ? bytes(value) : String(value), y = up(value);
      context.globalAlpha = 0.35;
      context.fillStyle = colours.ink;
      context.fillRect(layout.gutter - 4, y, view.width - layout.gutter + 4, 1);
      context.globalAlpha = 1;
      context.fillStyle = colours.muted;
      context.fillText(text, layout.gutter - 7 - context.measureText(text).width, y);
    }
  }

  /// What is allocated, and what there is.
  drawLimits(context, colours, of, up) {
    const line = (value, colour, dash) => {
      context.strokeStyle = colour;
      context.setLineDash(dash);
      context.lineWidth = 1.5;
      context.beginPath();
      context.moveTo(layout.gutter, up(value));
      context.lineTo(view.width, up(value));
      context.stroke();
      context.setLineDash([]);
    };
    if (of.peak) line(of.peak, colours.ink, []);
    if (of.capacity) line(of.capacity, colours.bad, [6, 4]);
  }
}
