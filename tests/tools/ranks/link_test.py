#!/usr/bin/env python3
"""A link between two hosts drops, and each side names the other; hosts are network namespaces.

usage: link_test.py TANDEM FOLDER

The control: the link is down for a second first, and the run goes on. Exit code 77 where namespaces are not allowed.
"""
import os
import re
import subprocess
import sys
import time

from kill_sweep import make_plan, wait_until
from two_hosts import ADDRESSES, Hosts, why_no_namespaces

WITHIN_S = 5.0


class Rank:
    def __init__(self, tandem, folder, hosts, rank):
        self.said_in = f"{folder}/rank{rank}"
        environment = dict(os.environ, TANDEM_RANK=str(rank), TANDEM_RANKS="2", TANDEM_LOCAL_RANK="0", TANDEM_LOCAL_RANKS="1",
                           TANDEM_RENDEZVOUS=ADDRESSES[0] + ":4000", TANDEM_SECRET="of the test of links")
        with open(self.said_in, "wb") as said:
            self.process = subprocess.Popen(
                ["ip", "netns", "exec", hosts.names[rank], tandem, "train", "plan.json", "--steps", "1000000"], cwd=folder,
                stdin=subprocess.DEVNULL, stdout=said, stderr=said, env=environment)

    def said(self):
        with open(self.said_in, encoding="utf-8", errors="replace") as file:
            return file.read()

    def steps(self):
        return len(re.findall(r"^\s*step ", self.said(), re.MULTILINE))


def drop_link(hosts, ranks):
    """What is wrong, a line each."""
    if not wait_until(lambda: ranks[0].steps() > 0, 60):
        return ["it makes no step"]
    hosts.set_link("down")
    time.sleep(1.0)
    hosts.set_link("up")
    at = ranks[0].steps()
    if not wait_until(lambda: ranks[0].steps() > at, 40):  # a line is printed every ten seconds
        return ["it does not go on behind a second without a link"]
    start = time.monotonic()
    hosts.set_link("down")
    faults = []
    if not wait_until(lambda: all(rank.process.poll() is not None for rank in ranks), 20):
        faults.append("it hangs")
    seconds = time.monotonic() - start
    if seconds > WITHIN_S:
        faults.append(f"all have ended after {seconds:.1f} s, not {WITHIN_S}")
    for number, rank in enumerate(ranks):
        other = 1 - number
        if rank.process.poll() != 1:
            faults.append(f"rank {number} has exit code {rank.process.poll()}, not 1")
        # Rank 0 hears what the others are at.
        words = rf"error: rank {other} \(host .*, process \d+\) is lost" + (r".*last at device 1, .*microbatch" if other else "")
        if not re.search(words, rank.said()):
            faults.append(f"rank {number} does not name rank {other}")
    print(f"named by both {seconds:.1f} s after the link was down")
    return faults


def main():
    if len(sys.argv) != 3:
        sys.exit(__doc__)
    tandem, folder = map(os.path.abspath, sys.argv[1:])
    if why := why_no_namespaces():
        print("SKIPPED: " + why)
        return 77
    os.makedirs(folder, exist_ok=True)
    make_plan(tandem, folder)
    with Hosts() as hosts:
        ranks = [Rank(tandem, folder, hosts, rank) for rank in (0, 1)]
        try:
            faults = drop_link(hosts, ranks)
        finally:
            for rank in ranks:
                rank.process.kill()
                rank.process.wait()
    for fault in faults:
        print("WRONG: " + fault)
    if faults:
        print("\n".join(rank.said()[-2000:] for rank in ranks))
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
