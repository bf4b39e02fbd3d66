"""What studies of training share: runs whose logs are kept, and axes to draw curves on."""

import json
import math
import os
import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent.parent
TANDEM = os.environ.get("TANDEM", ROOT / "build/release/tandem")


def check_needs():
    """Ends the program, with words, where the binary or the corpus is missing."""
    for path, how in ((pathlib.Path(TANDEM), "build it, or name it in TANDEM"),
                      (ROOT / "build/corpus/train.bin", "tools/scripts/corpus makes it")):
        if not path.exists():
            sys.exit(f"{pathlib.Path(sys.argv[0]).name}: {path} is missing: {how}")


def plan(model, schedule, stages, microbatches, optimizer="adamw"):
    """A plan file of stages with as many layers each as can be."""
    layers = 2 * model["blocks"] + 2
    cuts = [layers * i // stages for i in range(stages + 1)]
    return {"version": 1, "model": model, "schedule": schedule, "width": 1, "depth": stages,
            "microbatch_size": 1, "microbatches": microbatches, "extra_in_flight": 0, "recompute": "none",
            "optimizer": optimizer, "stages": [list(pair) for pair in zip(cuts, cuts[1:])], "profile": "",
            "predicted": {"period_s": 0.0, "samples_per_s": 0.0, "peak_bytes": [0] * stages}}


def train(folder, name, of_plan, options, steps, seed, every, validation_batches):
    """The points (step, validation loss) of a run on the corpus (tools/scripts/corpus), whose log FOLDER keeps."""
    log = folder / f"{name}-{seed}-{steps}.jsonl"
    if not log.exists():
        plan_file = folder / f"{name}.json"
        plan_file.write_text(json.dumps(of_plan, indent=1) + "\n")
        corpus = ROOT / "build/corpus"
        partial = log.with_suffix(".partial")
        subprocess.run(
            [TANDEM, "train", plan_file, *options, "--steps", str(steps), "--warmup", str(steps // 10),
             "--seed", str(seed), "--data", corpus / "train.bin", "--validation-data", corpus / "validation.bin",
             "--validate-every", str(every), "--validation-batches", str(validation_batches), "--log", partial],
            check=True, stdout=subprocess.DEVNULL)
        partial.rename(log)
    lines = [json.loads(line) for line in log.read_text().splitlines()]
    return [(line["step"], line["validation_loss"]) for line in lines if "validation_loss" in line]


class Panel:
    """Axes in a rectangle of the picture."""

    def __init__(self, box, xs, ys):
        self.left, self.top, self.right, self.bottom = box
        self.xs, self.ys = xs, ys

    def at(self, x, y):
        across = (x - self.xs[0]) / (self.xs[1] - self.xs[0])
        down = (self.ys[1] - y) / (self.ys[1] - self.ys[0])
        return self.left + across * (self.right - self.left), self.top + down * (self.bottom - self.top)

    def frame(self, x_ticks, y_ticks, x_label, y_label):
        parts = []
        for value, text in x_ticks:
            x, _ = self.at(value, self.ys[0])
            parts.append(f'<text x="{x:.1f}" y="{self.bottom + 20}" text-anchor="middle">{text}</text>')
        for value, text in y_ticks:
            _, y = self.at(self.xs[0], value)
            parts.append(f'<line x1="{self.left}" x2="{self.right}" y1="{y:.1f}" y2="{y:.1f}" stroke="#ddd"/>')
            parts.append(f'<text x="{self.left - 8}" y="{y + 4:.1f}" text-anchor="end">{text}</text>')
        middle = (self.top + self.bottom) / 2
        parts.append(f'<text x="{(self.left + self.right) / 2}" y="{self.bottom + 44}" text-anchor="middle">'
                     f'{x_label}</text>')
        parts.append(f'<text transform="translate({self.left - 58},{middle}) rotate(-90)" text-anchor="middle">'
                     f'{y_label}</text>')
        parts.append(f'<path d="M{self.left},{self.top} V{self.bottom} H{self.right}" fill="none" stroke="#333"/>')
        return parts

    def line(self, points, colour, width, dash="", opacity=1.0):
        path = " ".join("{:.1f},{:.1f}".format(*self.at(x, y)) for x, y in points)
        return (f'<polyline points="{path}" fill="none" stroke="{colour}" stroke-width="{width}" '
                f'stroke-dasharray="{dash}" opacity="{opacity}"/>')


def ticks(low, high, count):
    """Round numbers between."""
    step = 10 ** math.floor(math.log10((high - low) / count))
    step *= next(factor for factor in (1, 2, 5, 10) if (high - low) / (step * factor) <= count)
    first = math.ceil(low / step - 1e-9)
    digits = max(0, -math.floor(math.log10(step) + 1e-9))
    return [(i * step, f"{i * step:.{digits}f}") for i in range(first, math.floor(high / step + 1e-9) + 1)]
