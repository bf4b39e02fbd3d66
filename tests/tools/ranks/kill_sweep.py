#!/usr/bin/env python3
"""Kills (SIGKILL) and stops (SIGSTOP) a rank of a run at random moments, under each launcher that is there.

usage: kill_sweep.py TANDEM FOLDER [--launchers launch+mpirun] [--runs 8] [--seed 1]

They come at any moment from when the ranks are there, before they have joined one another too. Each run must end by itself
within 20 s, leave no process, and name no other rank than the one that was hit; the newest checkpoint must be whole. srun is
Slurm's on this host alone, started for this. Exit code 1 where one does not. The last lines are a table.
"""
import argparse
import collections
import os
import random
import re
import shutil
import signal
import subprocess
import sys
import time
import uuid

from one_node_slurm import OneNodeSlurm

LIMIT_S = 20
RANK_VARIABLES = ("TANDEM_RANK", "OMPI_COMM_WORLD_RANK", "PMI_RANK", "SLURM_PROCID", "RANK")
MPIRUN = "mpirun --allow-run-as-root --oversubscribe --bind-to none -n 2 "
# -r and -t: the default of Debian 12's torchrun (1.13) is none that Python 3.11 lets it read.
LAUNCHERS = {
    "launch": "{tandem} launch -n 2 -- {train}",
    "torchrun": "torchrun --no_python -r 1 -t 1 --nproc_per_node 2 {tandem} {train}",
    "mpirun": MPIRUN + "{tandem} {train}",
    "mpirun, transport mpi": MPIRUN + "{tandem} {train} --transport mpi",
    "mpiexec of MPICH": "mpiexec.mpich -n 2 {tandem} {train}",
    "srun": "srun -n 2 --overcommit --kill-on-bad-exit=1 {tandem} {train}",
}


def ranks_of(mark):
    """By rank, the processes of a run that train; and all of it."""
    ranks, everything = {}, []
    for name in os.listdir("/proc"):
        if not name.isdigit():
            continue
        try:
            with open(f"/proc/{name}/environ", "rb") as file:
                environment = file.read().decode(errors="replace").split("\0")
            with open(f"/proc/{name}/cmdline", "rb") as file:
                words = file.read().decode(errors="replace").split("\0")
            with open(f"/proc/{name}/stat", "rb") as file:
                state = file.read().rsplit(b")", 1)[1].split()[0]
        except OSError:
            continue
        if "KILL_SWEEP=" + mark not in environment or state == b"Z":
            continue
        everything.append(int(name))
        if os.path.basename(words[0]) != "tandem" or words[1:2] != ["train"]:
            continue
        values = dict(entry.split("=", 1) for entry in environment if "=" in entry)
        for variable in RANK_VARIABLES:
            if variable in values:
                ranks[int(values[variable])] = int(name)
                break
    return ranks, everything


def wait_until(there, seconds):
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        found = there()
        if found:
            return found
        time.sleep(0.01)
    return None


class Run:
    """One run, hit once. `faults`: what must not be."""

    def __init__(self, args, launcher, number):
        self.random = random.Random(f"{args.seed} {launcher} {number}")
        self.folder = os.path.join(args.folder, "run")
        shutil.rmtree(self.folder, ignore_errors=True)
        os.makedirs(self.folder)
        self.mark = uuid.uuid4().hex
        self.faults = []
        self.what = "stop" if number % 2 else "kill"
        self.seconds = self.named = None
        train = "train ../plan.json --steps 1000000 --checkpoint kept --checkpoint-every 5"
        line = LAUNCHERS[launcher].format(tandem=args.tandem, train=train)
        environment = dict(os.environ, KILL_SWEEP=self.mark)
        with open(os.path.join(self.folder, "said"), "wb") as said:
            self.launcher = subprocess.Popen(line.split(), cwd=self.folder, stdin=subprocess.DEVNULL,
                                             stdout=said, stderr=said, env=environment, start_new_session=True)
        self.hit()
        self.clean_up()
        self.check_checkpoint(args.tandem)

    def said(self):
        with open(os.path.join(self.folder, "said"), encoding="utf-8", errors="replace") as file:
            return file.read()

    def hit(self):
        if not wait_until(lambda: len(ranks_of(self.mark)[0]) == 2, 90):
            self.faults.append("it did not start")
            return
        time.sleep(self.random.uniform(0.0, 1.5))
        ranks, _ = ranks_of(self.mark)
        victim = self.random.randrange(2)
        if victim not in ranks:
            self.faults.append("it ended by itself")
            return
        start = time.monotonic()
        os.kill(ranks[victim], signal.SIGSTOP if self.what == "stop" else signal.SIGKILL)
        ended = wait_until(lambda: self.launcher.poll() is not None and not ranks_of(self.mark)[1], LIMIT_S)
        self.seconds = time.monotonic() - start
        said = self.said()
        if not ended:
            self.faults.append("it hangs")
        if self.launcher.poll() == 0:
            self.faults.append("exit code 0")
        lost = {int(rank) for rank in re.findall(r"rank (\d+) \([^)]*\)(?: is lost| was killed| stands still)", said)}
        if lost - {victim}:
            self.faults.append(f"rank {victim} was hit, and {sorted(lost)} are named")
        self.named = "tandem" if victim in lost else "launcher" if re.search(
            rf"(rank|task|local_rank:?) {victim}\b.*(signal|illed)|RANK {victim} PID|exitcode|task {victim}:", said) else "nobody"

    def clean_up(self):
        _, left = ranks_of(self.mark)
        for process in left:
            os.kill(process, signal.SIGKILL)
        if left and "it hangs" not in self.faults:
            self.faults.append("processes stay")
        self.launcher.wait()

    def check_checkpoint(self, tandem):
        kept = os.path.join(self.folder, "kept")
        if not os.path.isdir(kept) or not any(name.startswith("step-") for name in os.listdir(kept)):
            return
        ran = subprocess.run([tandem, "checkpoint", "verify", kept], capture_output=True, text=True, check=False)
        if ran.returncode != 0:
            self.faults.append("the checkpoint is not whole: " + ran.stderr)


def make_plan(tandem, folder):
    model = os.path.join(os.path.dirname(os.path.abspath(__file__)), "../../../tools/models/demo.json")
    for line in (["profile", "--model", model, "--repetitions", "1", "--output", "profile.json"],
                 ["plan", "--profile", "profile.json", "--devices", "2", "--global-batch", "8", "--schedule", "1f1b",
                  "--output", "plan.json"]):
        subprocess.run([tandem, *line], cwd=folder, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def sweep(args, launchers):
    table, bad = [], 0
    for launcher in launchers:
        for what in ("kill", "stop"):
            runs = []
            for number in range(what == "stop", args.runs, 2):
                run = Run(args, launcher, number)
                runs.append(run)
                if run.faults:
                    bad += 1
                    print(f"{launcher}, run {number} ({what}): {'; '.join(run.faults)}\n{run.said()[-1500:]}", flush=True)
            times = sorted(run.seconds for run in runs if run.seconds is not None) or [0.0]
            named = collections.Counter(run.named for run in runs)
            table.append(f"| {launcher} | {len(runs)} {what}s | {sum(not run.faults for run in runs)} as they should | "
                         f"{times[len(times) // 2]:.1f} s | {times[-1]:.1f} s | "
                         f"{', '.join(f'{count} by {who}' for who, count in named.items())} |")
            print(table[-1], flush=True)
    return 1 if bad else 0


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tandem", type=os.path.abspath)
    parser.add_argument("folder", type=os.path.abspath)
    parser.add_argument("--launchers", default="launch")
    parser.add_argument("--runs", type=int, default=8)
    parser.add_argument("--seed", default="1")
    args = parser.parse_args()
    os.makedirs(args.folder, exist_ok=True)
    make_plan(args.tandem, args.folder)
    launchers = args.launchers.split("+")
    if "srun" not in launchers:
        return sweep(args, launchers)
    with OneNodeSlurm(os.path.join(args.folder, "slurm")) as environment:
        os.environ.update(environment)
        return sweep(args, launchers)


if __name__ == "__main__":
    sys.exit(main())
