#!/usr/bin/env python3
"""Slurm runs a job again, on one node: what is trained then has the bytes of an undisturbed run.

usage: requeue_test.py TANDEM FOLDER

One job loses a rank (SIGKILL) and asks to be requeued; another is requeued from outside while it trains. Each must have been
started twice, and have kept, at its end, the model and the state that one process keeps. Exit code 77 where Slurm is not there.
"""
import filecmp
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

from kill_sweep import make_plan, ranks_of, wait_until
from one_node_slurm import DoesNotStart, OneNodeSlurm, is_there

STEPS = 60
FILES = ("model.safetensors", "state.safetensors")
JOB = """#!/bin/sh
srun -n 2 --overcommit --kill-on-bad-exit=1 {tandem} train ../plan.json --steps {steps} --checkpoint kept \
  --checkpoint-every 5 || scontrol requeue $SLURM_JOB_ID
"""


def newest(folder):
    return max((int(name.rsplit("-", 1)[1]) for name in glob.glob(folder + "/step-*[0-9]")), default=0)


def same_bytes(a, b):
    return all(filecmp.cmp(f"{a}/{name}", f"{b}/{name}", shallow=False) for name in FILES)


class Job:
    def __init__(self, tandem, folder, environment):
        shutil.rmtree(folder, ignore_errors=True)
        os.makedirs(folder)
        self.folder, self.mark = folder, os.path.basename(folder) + str(os.getpid())
        self.environment = dict(environment, KILL_SWEEP=self.mark)
        with open(f"{folder}/job.sh", "w", encoding="utf-8") as file:
            file.write(JOB.format(tandem=tandem, steps=STEPS))
        said = self.slurm("sbatch", "--requeue", "--open-mode=append", "--output=said", "job.sh")
        self.number = re.search(r"\d+", said).group()

    def slurm(self, *line):
        return subprocess.run(line, cwd=self.folder, env=self.environment, check=True, capture_output=True, text=True).stdout

    def state(self):
        shown = self.slurm("scontrol", "show", "job", self.number)
        return re.search(r"JobState=(\w+)", shown).group(1), int(re.search(r"Restarts=(\d+)", shown).group(1))

    def disturb(self, how):
        """When some checkpoints are there."""
        if not wait_until(lambda: newest(self.folder + "/kept") >= 10, 120):
            raise RuntimeError("it makes no checkpoint")
        if how == "kill":
            os.kill(ranks_of(self.mark)[0][1], signal.SIGKILL)
        else:
            self.slurm("scontrol", "requeue", self.number)

    def goes_to_its_end(self):
        # Slurm waits before it starts a job again, for two minutes mostly. It counts in seconds, and in the second in which a job
        # was requeued its node takes the new start for the one that was revoked, and the job FAILED: so not at once either.
        released, seen = [], {}

        def ends():
            state, restarts = self.state()
            if state == "PENDING" and restarts and not released:
                released.append(self.slurm("scontrol", "update", "JobId=" + self.number, "StartTime=now+3"))
            if state in ("PENDING", "RUNNING", "COMPLETING", "CONFIGURING"):
                seen.clear()
                return None
            # On a busy machine a job that is about to be requeued is seen to have failed for a moment.
            since = seen.setdefault(state, time.monotonic())
            return (state, restarts) if state == "COMPLETED" or time.monotonic() - since > 10 else None

        return wait_until(ends, 300) == ("COMPLETED", 1)


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    if not is_there():
        print("SKIPPED: Slurm's slurmctld and slurmd are not installed, or this is not root")
        return 77
    tandem, folder = map(os.path.abspath, sys.argv[1:])
    os.makedirs(folder, exist_ok=True)
    make_plan(tandem, folder)
    shutil.rmtree(folder + "/alone", ignore_errors=True)
    subprocess.run([tandem, "train", "plan.json", "--steps", str(STEPS), "--checkpoint", "alone", "--checkpoint-every", "20"],
                   cwd=folder, check=True, stdout=subprocess.DEVNULL)
    end = f"step-{STEPS:08}"
    assert not same_bytes(f"{folder}/alone/{end}", f"{folder}/alone/step-{STEPS - 20:08}"), "the control"
    bad = 0
    with OneNodeSlurm(folder + "/slurm") as environment:
        for how in ("kill", "requeue"):
            job = Job(tandem, f"{folder}/{how}", environment)
            job.disturb(how)
            at = newest(job.folder + "/kept")
            ended = job.goes_to_its_end()
            right = ended and at < STEPS and same_bytes(f"{job.folder}/kept/{end}", f"{folder}/alone/{end}")
            print(f"{how} behind step {at}: {'the same bytes' if right else f'WRONG: {job.state()}'}", flush=True)
            if not right:
                bad += 1
                for file in (f"{job.folder}/said", f"{folder}/slurm/slurmctld.log", f"{folder}/slurm/slurmd.log"):
                    with open(file, encoding="utf-8", errors="replace") as said:
                        print(f"{os.path.basename(file)}:\n{said.read()[-3000:]}")
    return 1 if bad else 0


if __name__ == "__main__":
    try:
        sys.exit(main())
    except DoesNotStart as why:
        print(f"SKIPPED: {why}")
        sys.exit(77)
