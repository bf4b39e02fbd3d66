"""Exported plans run by torch.distributed.pipelining: export_by_pytorch.py TANDEM makes plans of two
devices, has tools/scripts/run_by_pytorch.py train each, and sees that an order of ops that is
not the plan's is told. Ends with 77 where PyTorch is older than its pipelining."""

import json
import pathlib
import subprocess
import sys
import tempfile

ROOT = pathlib.Path(__file__).parents[3]
MODEL = {
    "version": 1, "name": "small", "architecture": "gpt2", "blocks": 6, "width": 48, "heads": 3,
    "sequence": 24, "vocabulary": 256, "tied": False,
}
CLUSTER = {
    "version": 1, "name": "cores",
    "devices": [{"name": "core", "fp32_flops_per_s": 2e10, "memory_bytes": 1 << 30, "memory_bytes_per_s": 1e10}],
    "groups": [{
        "name": "machine", "members": [{"name": "core", "device": "core", "count": 4}, {"name": "memory"}],
        "links": [{"between": ["core", "memory"], "bytes_per_s_one_way": 5e9, "latency_ns": 20000}],
    }],
    "root": "machine",
}
PLANS = {"1f1b": [], "zb-h1": [], "interleaved": ["--chunks", "2"]}


def main(tandem):
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        (folder / "model.json").write_text(json.dumps(MODEL))
        (folder / "cluster.json").write_text(json.dumps(CLUSTER))

        def run(*command):
            return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)

        def by_pytorch(plan, *more):
            return run(sys.executable, ROOT / "tools/scripts/run_by_pytorch.py", tandem, plan, "--steps", "3", *more)

        failed = []
        for schedule, more in PLANS.items():
            plan = f"{schedule}.json"
            made = run(
                tandem, "plan", "--model", "model.json", "--cluster", "cluster.json", "--global-batch", "8",
                "--depth", "2", "--width", "1", "--tensor", "1", "--microbatch-size", "2", "--dtype", "fp32",
                "--recompute", "none", "--cut", "blocks", "--schedule", schedule, "--output", plan, *more,
            )
            ran = by_pytorch(plan) if made.returncode == 0 else made
            print(ran.stdout + ran.stderr, end="")
            if ran.returncode == 77:
                return 77
            if ran.returncode != 0:
                failed.append(schedule)
        run(tandem, "export", "zb-h1.json", "--to", "pytorch-csv", "--output", "other.csv")
        other = folder / "other.csv"
        text = other.read_text()
        other.write_text(text.replace("1W0", "1W_").replace("1W1", "1W0").replace("1W_", "1W1"))
        told = by_pytorch("zb-h1.json", "--csv", "other.csv")
        print("control:", told.stdout + told.stderr, end="")
        if other.read_text() == text or told.returncode != 1 or "WRONG" not in told.stdout:
            failed.append("control")
    print("failed: " + ", ".join(failed) if failed else "as PyTorch has it")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
