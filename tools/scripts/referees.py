#!/usr/bin/env python3
"""Published planners against ours, by the exact simulation: a table of models, clusters and batches.

Each row is one `tandem plan --planner pipedream,2bw --json`. Written is a table in Markdown; the exit
status is 6 where ours is slower than a planner's fastest form that fits. Standard library only, from
the root: python3 tools/scripts/referees.py --output build/referees.md
"""

import argparse
import json
import subprocess
import sys
import time

TANDEM = "build/release/tandem"
MODELS = ("gpt2-xl", "gpt3-1.3b", "gpt3-2.7b", "gpt3-6.7b", "llama2-7b", "gpt3-13b")
CLUSTERS = ("p3.16xlarge", "8xp3.16xlarge", "DGX-A100", "4xDGX-A100", "2xDGX-H100")
BATCHES = (64, 512)
PLANNERS = ("pipedream", "2bw")


def answer(model, cluster, batch, semantics):
    """The result, and seconds that it took; None: the question has no answer."""
    words = ["plan", "--model", model, "--cluster", cluster, "--global-batch", str(batch)]
    words += ["--planner", ",".join(PLANNERS), "--gap", "0.1%", "--json"]
    words += ["--semantics", semantics] if semantics else []
    start = time.monotonic()
    done = subprocess.run([TANDEM, *words], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)["result"], time.monotonic() - start


def shape(plan):
    text = f"{plan['schedule']} {plan['tensor']}x{plan['depth']}x{plan['width']}"
    return text + (" full" if plan["recompute"] == "full" else "")


def cells(published, ours):
    """Promise, exact simulation and ratio of one planner; and whether ours is slower."""
    plan = published["plan"]
    if plan is None:
        return ["no plan", "", ""], False
    promised = f"{plan['promised_s']:.4g}"
    if plan["fastest"] is None:
        return [promised, "not simulated", ""], False
    form = plan["forms"][plan["fastest"]]
    made = form["simulated"]
    text = f"{form['step_s']:.4g}, {shape(made)}"
    if not form["fits"]:
        return [promised, text + ", does not fit", ""], False
    if ours is None:
        return [promised, text, "ours fits not"], True
    ratio = form["step_s"] / ours["period_s"]
    return [promised, text, f"{ratio:.3f}"], ratio < 1.0


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="build/referees.md")
    parser.add_argument("--semantics", choices=("vanilla",))
    parser.add_argument("--only", help="models whose names have this")
    asked = parser.parse_args()
    head = ["model", "cluster", "batch", "ours, s"]
    for planner in PLANNERS:
        head += [f"{planner} promises", "simulated", "over ours"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    slower, seconds, rows = 0, 0.0, 0
    for model in MODELS:
        if asked.only and asked.only not in model:
            continue
        for cluster in CLUSTERS:
            for batch in BATCHES:
                result, took = answer(model, cluster, batch, asked.semantics)
                ours = result["ours"]
                row = [model, cluster, str(batch),
                       "no plan fits" if ours is None else f"{ours['period_s']:.4g}, {shape(ours)}"]
                for published in result["published"]:
                    more, worse = cells(published, ours)
                    row += more
                    slower += worse
                lines.append("| " + " | ".join(row) + " |")
                print(f"{lines[-1]} {took:.1f} s", flush=True)
                seconds += took
                rows += 1
    lines.append(f"\n{rows} inputs in {seconds:.0f} s; ours is slower in {slower}.")
    with open(asked.output, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(lines[-1])
    return 6 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
