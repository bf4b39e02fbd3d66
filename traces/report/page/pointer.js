// Mouse, pen and fingers on the timeline and the curves: drag to move, pinch or wheel to zoom, click
// to choose, hover to be told. Vertical drags of one finger scroll the page (touch-action: pan-y).

function pointAt(event) {
  const box = timeline.canvas.getBoundingClientRect();
  return { x: event.clientX - box.left, y: event.clientY - box.top };
}

function hover(event) {
  const { x, y } = pointAt(event);
  const found = timeline.at(x, y), tooltip = element("tooltip");
  tooltip.hidden = !found;
  if (!found) return;
  tooltip.textContent = (found.idle ? describeIdle(current.frame, found.device, found.idle)
    : describe(current.frame, found.box)).join("\n");
  const { width, height } = tooltip.getBoundingClientRect();
  tooltip.style.left = `${Math.min(event.clientX + 14, innerWidth - width - 8)}px`;
  tooltip.style.top = `${Math.min(event.clientY + 16, innerHeight - height - 8)}px`;
}

function chooseAt(event) {
  const { x, y } = pointAt(event);
  const found = timeline.at(x, y);
  timeline.chosen = found && found.box !== undefined ? found.box : -1;
  showChosen();
  drawSoon();
}

/// What holds a part of time: the first and the last of one finger or two, in pixels, and the times
/// at which they took hold; while they move, these times stay under them.
class Grip {
  constructor(scroller) {
    this.scroller = scroller;
    this.held = new Map();  // pointers, by id
  }

  /// The two outermost, or twice the only one.
  ends() {
    const places = [...this.held.values()].sort((a, b) => a - b);
    return [places[0], places.at(-1)];
  }

  /// Where the pointers are is where the view stays.
  take() {
    if (this.held.size === 0) return;
    this.before = { ends: this.ends(), start: view.start, end: view.end };
  }

  add(event) {
    this.held.set(event.pointerId, event.clientX - this.scroller.getBoundingClientRect().left);
    this.moved = this.held.size > 1;
    this.take();
  }

  move(event) {
    this.held.set(event.pointerId, event.clientX - this.scroller.getBoundingClientRect().left);
    const { ends: was, start, end } = this.before, now = this.ends();
    this.moved = this.moved || Math.abs(now[0] - was[0]) > 3;
    const least = 12;  // fingers nearer than this would zoom without end
    const zoomed = Math.max(was[1] - was[0], least) / Math.max(now[1] - now[0], least);
    const factor = this.held.size > 1 ? zoomed : 1;
    const perPixel = (end - start) / (view.width - layout.gutter);
    const middle = (ends) => (ends[0] + ends[1]) / 2 - layout.gutter;
    const first = start + middle(was) * perPixel - middle(now) * perPixel * factor;
    look(first, first + (end - start) * factor);
    drawSoon();
  }

  remove(event) {
    this.held.delete(event.pointerId);
    this.take();
  }
}

function listenToPointer(scroller) {
  const grip = new Grip(scroller), telling = scroller === timeline.scroller;
  scroller.addEventListener("pointerdown", (event) => {
    const box = scroller.getBoundingClientRect();
    if (event.button !== 0 || event.clientX - box.left > scroller.clientWidth) return;
    grip.add(event);
    // A finger is captured anyway.
    if (event.pointerType !== "touch") scroller.setPointerCapture(event.pointerId);
  });
  scroller.addEventListener("pointermove", (event) => {
    if (!grip.held.has(event.pointerId)) {
      if (telling && grip.held.size === 0) hover(event);
      return;
    }
    grip.move(event);
    scroller.classList.toggle("dragging", grip.moved);
    element("tooltip").hidden = true;
  });
  const release = (event) => {
    if (!grip.held.has(event.pointerId)) return;
    grip.remove(event);
    if (grip.held.size > 0) return;
    scroller.classList.remove("dragging");
    if (telling && !grip.moved && event.type === "pointerup") chooseAt(event);
  };
  scroller.addEventListener("pointerup", release);
  scroller.addEventListener("pointercancel", release);
  scroller.addEventListener("pointerleave", () => { element("tooltip").hidden = true; });
  // Two fingers zoom here, and do not scroll besides.
  scroller.addEventListener("touchmove", (event) => {
    if (event.touches.length > 1 && event.cancelable) event.preventDefault();
  }, { passive: false });
  scroller.addEventListener("wheel", (event) => {
    const across = event.shiftKey ? event.deltaY : event.deltaX;
    if (event.ctrlKey || event.metaKey) {
      const box = scroller.getBoundingClientRect();
      zoom(Math.exp(event.deltaY * 0.004), timeAt(event.clientX - box.left));
    } else if (Math.abs(across) > Math.abs(event.shiftKey ? 0 : event.deltaY)) {
      pan(across / view.width);
    } else {
      return;
    }
    event.preventDefault();
  }, { passive: false });
  scroller.addEventListener("scroll", drawSoon);
}
