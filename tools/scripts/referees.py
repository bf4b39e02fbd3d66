#!/usr/bin/env python3
"""Published planners and configurations against ours, by the exact simulation.

The first table has a row for each model, cluster and batch: `tandem plan --planner pipedream,2bw,piper,terapipe`.
With --configurations it has one for each configuration that the papers of 2BW (arXiv 2006.09503) and
of Megatron (2104.04473) give, `tandem plan --beside`: those of tests/published, and the other batches
of 2BW's figures. Written is Markdown; the exit status is 6 where ours is slower. Standard library
only, from the root:

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
PLANNERS = ("pipedream", "2bw", "piper", "terapipe")
PUBLISHED = "tests/published/"


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
    return text + (f" {plan['recompute']}" if plan["recompute"] != "none" else "")


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


def planner_row(model, cluster, batch, result):
    """Cells, and how many planners' plans are faster than ours."""
    ours = result["ours"]
    row = [model, cluster, str(batch),
           "no plan fits" if ours is None else f"{ours['period_s']:.4g}, {shape(ours)}"]
    slower = 0
    for published in result["published"]:
        columns, worse = cells(published, ours)
        row += columns if published["planner"] == "pipedream" else columns[:-1]
        slower += worse
    return row, slower


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
        question = (model, cluster, batch, "--planner", ",".join(PLANNERS), *more)
        result, took = answer(*question, "--gap", asked.gap)
        row, worse = planner_row(model, cluster, batch, result)
        if worse:  # by less than the gap, or in truth
            result, took = answer(*question)
            row, worse = planner_row(model, cluster, batch, result)
        slower += worse
        lines.append("| " + " | ".join(row) + " |")
        print(f"{lines[-1]} {took:.1f} s", flush=True)
    return lines, slower


def words_of(options):
    """Options of simulate as a dictionary; those without a value are empty."""
    words, said = options.split(), {}
    for place, word in enumerate(words):
        if word.startswith("--"):
            value = words[place + 1] if place + 1 < len(words) and not words[place + 1].startswith("--") else ""
            said[word[2:]] = value
    return said


def configurations():
    """Where it was published, and what simulate was told of it: of tests/published, each once."""
    seen = set()
    for name in ("pipedream-2bw", "megatron"):
        with open(f"{PUBLISHED}{name}.json", encoding="utf-8") as file:
            published = json.load(file)
        for row in published["rows"]:
            for options in (row["options"], row.get("over", "")):
                said = words_of(published["command"] + " " + options)
                said.pop("calibration", None)
                if options and tuple(sorted(said.items())) not in seen:
                    seen.add(tuple(sorted(said.items())))
                    yield name, said
    # The batches of the paper's figures that no row has.
    for cluster, batch in (("p3.16xlarge", "256"), ("8xp3.16xlarge", "512")):
        for schedule in ("2bw", "1f1b", "gpipe"):
            yield "pipedream-2bw", {"schedule": schedule, "model": "gpt-2.2b", "cluster": cluster, "depth": "8",
                                    "global-batch": batch, "recompute": "stage", "microbatch-size": "8",
                                    "cut": "even", "transfers": "blocking"}


SHAPE = ("schedule", "tensor", "depth", "width", "chunks", "group", "microbatch-size", "recompute", "cut")


def configuration_table(asked):
    """A search for each model, cluster, batch and semantics; all that was published is set beside it."""
    questions = {}
    for name, said in configurations():
        if asked.only and asked.only not in said["model"]:
            continue
        depth = int(said.get("depth", 1))
        delayed = said["schedule"] == "2bw"
        given = tuple(sorted((key, value) for key, value in said.items()
                             if key not in (*SHAPE, "model", "cluster", "global-batch")))
        key = (name, said["model"], said["cluster"], said["global-batch"], delayed, given)
        theirs = [",".join(f"{word}={said[word]}" for word in SHAPE if word in said)]
        if name == "megatron" and depth > 1:  # its section 5.1 interleaves; by how many chunks it does not say
            theirs.append(theirs[0].replace("schedule=1f1b", "schedule=interleaved,chunks=2"))
        questions.setdefault(key, []).extend(theirs)
    head = ["model", "cluster", "batch", "theirs", "s a step", "ours", "s a step", "over ours", "known faster"]
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    slower = 0
    for (_, model, cluster, batch, delayed, given), theirs in questions.items():
        more = [word for key, value in given for word in (f"--{key}", value)]
        more += [] if delayed else ["--semantics", "vanilla"]
        result, took = answer(model, cluster, batch, "--gap", asked.gap, "--beside", ";".join(theirs), *more)
        if result is None:
            lines.append(f"| {model} | {cluster} | {batch} | | | no plan fits | | | |")
            continue
        ours = result["ranked"][0]
        for beside in result["beside"]:
            plan, ratio = beside["plan"], beside["over_best"]
            slower += beside["fits"] and ratio < 1.0
            row = [model, cluster, batch, f"{shape(plan)} b={plan['microbatch_size']}",
                   f"{plan['period_s']:.4g}" + ("" if beside["fits"] else ", does not fit"),
                   f"{shape(ours)} b={ours['microbatch_size']}", f"{ours['period_s']:.4g}",
                   f"{ratio:.3f}", f"{beside['known_faster']}"]
            lines.append("| " + " | ".join(row) + " |")
            print(f"{lines[-1]} {took:.1f} s", flush=True)
    return lines, slower


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", default="build/referees.md")
    parser.add_argument("--configurations", action="store_true", help="published ones, in place of planners")
    parser.add_argument("--semantics", choices=("vanilla",))
    parser.add_argument("--gap", default="1%", help="of the searches")
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
