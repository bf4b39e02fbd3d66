#!/usr/bin/env python3
"""Published planners and configurations against ours, by the exact simulation.

The first table has a row for each model, cluster and batch: `tandem plan --planner pipedream,2bw`.
With --configurations it has one for each configuration that the papers of 2BW (arXiv 2006.09503) and
of Megatron (2104.04473) give: `tandem plan` told all that the paper says, and told nothing. Written
is Markdown; the exit status is 6 where ours is slower. Standard library only, from the root:

    python3 tools/scripts/referees.py --output build/referees.md
"""

import argparse
import itertools
import json
import subprocess
import sys
import time

TANDEM = "build/release/tandem"
MODELS = ("gpt2-xl", "gpt3-1.3b", "gpt-2.2b", "gpt3-2.7b", "gpt3-6.7b", "llama-3-8b")
CLUSTERS = ("p3.16xlarge", "DGX-A100", "2xDGX-H100")
LARGE_MODELS, LARGE_CLUSTERS = ("gpt3-6.7b", "llama-3-8b"), ("8xp3.16xlarge",)
BATCHES = (64, 512)
PLANNERS = ("pipedream", "2bw")


# Of 2BW's paper: microbatches of 8, recomputation on; model, cluster, depth, width, batches.
TWO_BW = (("gpt-2.2b", "p3.16xlarge", 8, 1, (64, 256)),
          ("gpt-2.2b", "8xp3.16xlarge", 8, 8, (512, 2048)),
          ("gpt-3.8b", "8xp3.16xlarge", 16, 4, (512, 2048)))
# Table 1 of Megatron's: model, tensor degree, depth, nodes, batch. It says no microbatch size: theirs
# is the best.
MEGATRON = (("megatron-1.7b", 1, 1, 4, 512), ("megatron-3.6b", 2, 1, 8, 512),
            ("megatron-7.5b", 4, 1, 16, 512), ("megatron-18.4b", 8, 1, 32, 1024))


def answer(model, cluster, batch, *more):
    """The result, and seconds that it took; None: nothing fits. Any other failure ends the table."""
    words = ["plan", "--model", model, "--cluster", cluster, "--global-batch", str(batch), *more, "--json"]
    start = time.monotonic()
    done = subprocess.run([TANDEM, *words], capture_output=True, text=True, check=False)
    if done.returncode == 4:
        return None, time.monotonic() - start
    if done.returncode != 0:
        sys.exit(f"{' '.join(words)}: exit {done.returncode}\n{done.stderr}")
    return json.loads(done.stdout)["result"], time.monotonic() - start


def shape(plan):
    text = f"{plan['schedule']} {plan['tensor']}x{plan['depth']}x{plan['width']}"
    return text + (" full" if plan["recompute"] == "full" else "")


def form_text(form):
    made = form["simulated"]
    return f"{form['step_s']:.4g}, {shape(made)}" + ("" if form["fits"] else ", does not fit")


def cells(published, ours):
    """Promise, exact simulation and ratio of one planner, and its own training; whether ours is slower."""
    plan = published["plan"]
    if plan is None:
        return ["no plan", "", "", ""], False
    promised = f"{plan['promised_s']:.4g}"
    others = [form_text(form) for form in plan["forms"] if not form["one_update_a_batch"]]
    other = others[0] if others else ""
    if plan["fastest"] is None:
        return [promised, "not simulated", "", other], False
    form = plan["forms"][plan["fastest"]]
    if not form["fits"] or ours is None:
        return [promised, form_text(form), "", other], form["fits"]
    ratio = form["step_s"] / ours["period_s"]
    return [promised, form_text(form), f"{ratio:.3f}", other], ratio < 1.0


def planner_table(asked):
    """Lines, and where ours is slower."""
    head = ["model", "cluster", "batch", "ours, s"]
    for planner in PLANNERS:
        head += [f"{planner} promises", "simulated", "over ours"]
        head += ["as it trains"] if planner == "pipedream" else []
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    slower = 0
    more = ["--semantics", asked.semantics] if asked.semantics else []
    for model, cluster, batch in [*itertools.product(MODELS, CLUSTERS, BATCHES),
                                  *itertools.product(LARGE_MODELS, LARGE_CLUSTERS, BATCHES)]:
        if asked.only and asked.only not in model:
            continue
        result, took = answer(model, cluster, batch, "--planner", ",".join(PLANNERS), "--gap", "1%", *more)
        ours = result["ours"]
        row = [model, cluster, str(batch),
               "no plan fits" if ours is None else f"{ours['period_s']:.4g}, {shape(ours)}"]
        for published in result["published"]:
            columns, worse = cells(published, ours)
            row += columns if published["planner"] == "pipedream" else columns[:-1]
            slower += worse
        lines.append("| " + " | ".join(row) + " |")
        print(f"{lines[-1]} {took:.1f} s", flush=True)
    return lines, slower


def configurations():
    """Model, cluster, batch, semantics, and what the paper says."""
    for model, cluster, depth, width, batches in TWO_BW:
        for batch, schedule in itertools.product(batches, ("2bw", "1f1b", "gpipe")):
            yield (model, cluster, batch, [] if schedule == "2bw" else ["--semantics", "vanilla"],
                   ["--schedule", schedule, "--depth", str(depth), "--width", str(width), "--tensor", "1",
                    "--microbatch-size", "8", "--recompute", "full", "--zero", "0"])
    for model, tensor, depth, nodes, batch in MEGATRON:
        yield (model, f"{nodes}xDGX-A100", batch, ["--semantics", "vanilla"],
               ["--schedule", "1f1b,interleaved", "--depth", str(depth), "--tensor", str(tensor), "--width",
                str(8 * nodes // tensor // depth), "--recompute", "full", "--zero", "0"])


def configuration_table(asked):
    head = ["model", "cluster", "batch", "theirs", "s a step", "ours", "s a step", "over ours"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    slower = 0
    for model, cluster, batch, semantics, said in configurations():
        if asked.only and asked.only not in model:
            continue
        theirs, took = answer(model, cluster, batch, *semantics, *said)
        ours, more = answer(model, cluster, batch, *semantics, "--gap", "1%")
        if theirs is None or ours is None:
            lines.append(f"| {model} | {cluster} | {batch} | {said[1]}: does not fit | | | | |")
            print(lines[-1], flush=True)
            continue
        theirs, ours = theirs["ranked"][0], ours["ranked"][0]
        ratio = theirs["period_s"] / ours["period_s"]
        slower += ratio < 1.0
        row = [model, cluster, str(batch), f"{shape(theirs)} b={theirs['microbatch_size']}",
               f"{theirs['period_s']:.4g}", f"{shape(ours)} b={ours['microbatch_size']}",
               f"{ours['period_s']:.4g}", f"{ratio:.3f}"]
        lines.append("| " + " | ".join(row) + " |")
        print(f"{lines[-1]} {took + more:.1f} s", flush=True)
    return lines, slower


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="build/referees.md")
    parser.add_argument("--configurations", action="store_true", help="published ones, in place of planners")
    parser.add_argument("--semantics", choices=("vanilla",))
    parser.add_argument("--only", help="models whose names have this")
    asked = parser.parse_args()
    start = time.monotonic()
    lines, slower = configuration_table(asked) if asked.configurations else planner_table(asked)
    lines.append(f"\n{len(lines) - 2} inputs in {time.monotonic() - start:.0f} s; ours is slower in {slower}.")
    with open(asked.output, "w", encoding="utf-8") as file:
        file.write("\n".join(lines) + "\n")
    print(lines[-1])
    return 6 if slower else 0


if __name__ == "__main__":
    sys.exit(main())
