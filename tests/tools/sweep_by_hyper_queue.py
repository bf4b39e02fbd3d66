"""A sweep in the tasks of a HyperQueue job, merged, is the sweep of one process: sweep_by_hyper_queue.py TANDEM.

The job has tasks 0 to 3, and its array 1-3 is that of `hq submit --array 1-3`: Python's tasks are numbered from 0.
"""

import pathlib
import subprocess
import sys
import tempfile

from hyperqueue import Job, LocalCluster
from hyperqueue.cluster import WorkerConfig

SWEEP = ("sweep --schedule 1f1b,gpipe,zb-h1 --devices 2..5 --microbatches 4,8 --forward 1ms --backward 2ms"
         " --threads 1").split()
SHARDS = 3


def sweep_by_tasks(tandem, folder, first):
    """Exit status of a job whose tasks from `first` on are a shard each."""
    with LocalCluster(worker_config=WorkerConfig(cores=2)) as cluster:
        job = Job(default_workdir=folder)
        for _ in range(first):
            job.program(["true"])
        for _ in range(SHARDS):
            job.program([tandem, *SWEEP, "--shard", f"hq/{SHARDS}", "--resume", "rows-{shard}.jsonl"])
        client = cluster.client()
        return client.wait_for_jobs([client.submit(job)], raise_on_error=False)


def main(tandem):
    tandem = str(pathlib.Path(tandem).resolve())
    with tempfile.TemporaryDirectory() as name:
        folder = pathlib.Path(name)

        def run(*words):
            subprocess.run([tandem, *words], cwd=folder, check=True, stdout=subprocess.DEVNULL)

        assert sweep_by_tasks(tandem, folder, first=1), "a task failed"
        shards = sorted(each.name for each in folder.glob("rows-*.jsonl"))
        assert shards == [f"rows-{k}.jsonl" for k in range(1, SHARDS + 1)], shards
        run("sweep", "merge", *shards, "--csv", "merged.csv")
        run(*SWEEP, "--csv", "whole.csv")
        assert (folder / "merged.csv").read_bytes() == (folder / "whole.csv").read_bytes(), "other rows"
        # An array that does not begin at 1 has no shard for one of its tasks.
        assert not sweep_by_tasks(tandem, folder, first=0), "a task beyond the array was not refused"
    print(f"{SHARDS} tasks, one sweep")


if __name__ == "__main__":
    main(*sys.argv[1:])
