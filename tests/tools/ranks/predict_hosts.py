#!/usr/bin/env python3
"""Predicted and measured steps of a pipeline over two hosts, which are network namespaces joined by a slow link.

usage: predict_hosts.py TANDEM FOLDER [--rates 1gbit,100mbit] [--schedules 2bw,1f1b] [--steps 40] [--most-error 5]

For each rate: `profile --ranks` measures the link, `simulate PLAN --cluster` predicts the step, and `launch --hosts` trains. The
last lines are a table. Times are medians of steps during which nobody but the other rank had the processors. A real
wire works by itself; this one's work is done by the processors that compute, and is measured, too. Exit code 1 where a
prediction is further off than --most-error percent, 77 where namespaces are not allowed. FOLDER keeps the traces.
"""
import argparse
import json
import os
import pathlib
import statistics
import subprocess
import sys
import time

from two_hosts import ADDRESSES, Hosts, why_no_namespaces

MODEL = {"version": 1, "name": "two-hosts", "architecture": "gpt2", "blocks": 6, "width": 256, "heads": 4, "sequence": 128,
         "vocabulary": 256, "tied": False}
MICROBATCHES, MICROBATCH_SIZE = 8, 4
BYTES_A_STEP = 2 * MICROBATCHES * MICROBATCH_SIZE * MODEL["sequence"] * MODEL["width"] * 4  # outputs, and gradients back
MOST_FOREIGN, MOST_STOLEN = 0.6, 0.05  # shares of two processors; the other rank is foreign, too
FIRST_STEPS = 2  # fill the pipeline and the caches


class TwoHosts:
    """Tandem's commands, as ranks of both hosts or alone."""

    def __init__(self, tandem, folder, hosts):
        self.tandem, self.folder = tandem, folder
        (folder / "hosts").write_text("".join(name + "\n" for name in hosts.names))
        ssh = folder / "enter"
        ssh.write_text('#!/bin/sh\nexec ip netns exec "$1" sh -c "$2"\n')
        ssh.chmod(0o755)

    def alone(self, *words):
        done = subprocess.run([self.tandem, *map(str, words)], cwd=self.folder, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            sys.exit(f"{' '.join(map(str, words))}: exit {done.returncode}\n{done.stderr[-2000:]}")
        return done.stdout

    def ranks(self, *words):
        # Nothing that waits for ssh: the launcher is on a third host.
        return self.alone("launch", "--hosts", "hosts", "--ssh", "./enter", "--rendezvous", ADDRESSES[0] + ":4000", "--",
                          *words)


RECEIVES = """
import socket
listener = socket.create_server(("{}", 4001))
link, block = listener.accept()[0], bytearray(1 << 20)
while link.recv_into(block): pass
"""
SENDS = """
import socket
link, block = socket.create_connection(("{}", 4001)), bytes(1 << 19)
for _ in range({}): link.sendall(block)
"""


def busy_seconds():
    """Of all processors since they were started: users', the system's, interrupts'."""
    ticks = [int(word) for word in open("/proc/stat", encoding="ascii").readline().split()[1:]]
    return sum(ticks[i] for i in (0, 1, 2, 5, 6)) / os.sysconf("SC_CLK_TCK")


def wire_work(names, seconds=2.0):
    """Seconds of a processor that a byte from one namespace to the other takes, while nobody computes."""
    def enter(name, script):
        return subprocess.Popen(["ip", "netns", "exec", name, sys.executable, "-c", script])

    def send(blocks):
        """How long it takes, and what is busy beside what was before."""
        receiver = enter(names[1], RECEIVES.format(ADDRESSES[1]))
        time.sleep(0.5)
        idle = busy_seconds()
        time.sleep(0.5)
        began, busy = time.monotonic(), busy_seconds()
        enter(names[0], SENDS.format(ADDRESSES[1], blocks)).wait()
        receiver.wait()
        took = time.monotonic() - began
        return took, busy_seconds() - busy - (busy - idle) / 0.5 * took

    few, (took, without) = 4, send(4)  # how long a block takes; what both programs take to start
    blocks = max(2 * few, int(seconds / took * few))
    return (send(blocks)[1] - without) / ((blocks - few) * (1 << 19))


def measured_step(log):
    """Median seconds of a step, and how many steps were left out."""
    steps = [json.loads(line) for line in log.read_text().splitlines()][FIRST_STEPS:-1]
    quiet = [step for step in steps if step["foreign_cpu"] < MOST_FOREIGN and step["stolen_cpu"] < MOST_STOLEN]
    if len(quiet) < 5:
        sys.exit(f"{log}: others had the processors in all but {len(quiet)} of {len(steps)} steps")
    return statistics.median(step["step_s"] for step in quiet), len(steps) - len(quiet)


def compare(hosts, schedule, rate, steps):
    """One row: seconds predicted, seconds measured, steps left out."""
    name = f"{schedule}-{rate}"
    predicted = json.loads(hosts.alone("simulate", f"{schedule}.json", "--cluster", f"links-{rate}.json", "--trace",
                                       f"{name}-simulated.json", "--json"))["result"]["period_s"]
    hosts.ranks("train", f"{schedule}.json", "--steps", steps, "--log", f"{name}.jsonl", "--trace", f"{name}-real.json")
    return predicted, *measured_step(hosts.folder / f"{name}.jsonl")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem")
    parser.add_argument("folder")
    parser.add_argument("--rates", default="1gbit,100mbit")
    parser.add_argument("--schedules", default="2bw,1f1b")
    parser.add_argument("--steps", type=int, default=40)
    parser.add_argument("--most-error", type=float, default=5.0)
    options = parser.parse_args()
    if why := why_no_namespaces():
        print("SKIPPED: " + why)
        return 77
    folder = pathlib.Path(options.folder).resolve()
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "model.json").write_text(json.dumps(MODEL))
    rows, worst = [], 0.0
    with Hosts() as made:
        hosts = TwoHosts(os.path.abspath(options.tandem), folder, made)
        hosts.alone("profile", "--model", "model.json", "--microbatch-size", MICROBATCH_SIZE, "--devices", 2, "--output",
                    "profile.json")
        for schedule in options.schedules.split(","):
            hosts.alone("plan", "--profile", "profile.json", "--devices", 2, "--global-batch",
                        MICROBATCHES * MICROBATCH_SIZE, "--schedule", schedule,
                        "--microbatch-size", MICROBATCH_SIZE, "--output", f"{schedule}.json")
        for rate in options.rates.split(","):
            made.limit(rate)
            work = wire_work(made.names)
            print(f"{rate}: the wire takes {1e9 * work:.1f} ns of a processor a byte, {1e3 * work * BYTES_A_STEP:.0f} ms a step")
            hosts.ranks("profile", "--ranks", "--output", f"links-{rate}.json")
            for schedule in options.schedules.split(","):
                predicted, measured, dropped = compare(hosts, schedule, rate, options.steps)
                error = 100 * (predicted / measured - 1)
                worst = max(worst, abs(error))
                rows.append(f"| {schedule} | {rate} | {1e3 * predicted:.1f} ms | {1e3 * measured:.1f} ms | {error:+.1f} % |"
                            f" {dropped} |")
                print(rows[-1], flush=True)
    return 1 if worst > options.most_error else 0


if __name__ == "__main__":
    sys.exit(main())
