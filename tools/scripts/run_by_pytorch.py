#!/usr/bin/env python3
"""Runs an exported plan by torch.distributed.pipelining, and holds it against tandem:

    python3 run_by_pytorch.py TANDEM PLAN [--steps N] [--csv FILE]

PLAN is one pipeline of a GPT-2 without tied embeddings, of whole blocks, whose schedule PyTorch's
CSV can say. A process for each device (CPU, gloo) runs `tandem export PLAN --to pytorch-csv`, or
FILE, from the weights, the data and the AdamW of `tandem train PLAN`. Compared are the order of ops
as PyTorch executed them, the loss of every step (1e-4), and the time of a step with what `tandem
simulate` makes of PyTorch's own times of ops. Exit status 1: order or losses differ; 77: this
PyTorch has no such runtime.
"""

import argparse
import collections
import inspect
import json
import os
import pathlib
import re
import statistics
import struct
import subprocess
import sys
import tempfile
import time

try:
    import torch
    import torch.distributed as dist
    import torch.multiprocessing as multiprocessing
    from torch.distributed.pipelining import PipelineStage
    from torch.distributed.pipelining.schedules import _PipelineScheduleRuntime
except ImportError as error:
    print(f"no PyTorch with torch.distributed.pipelining: {error}")
    sys.exit(77)

TOLERANCE = 1e-4
RATE, SEED = 1e-3, 1
MASK = (1 << 64) - 1


# ---- What tandem trains on (core/base/random.h, executor/data/data.cpp) ----


def mix(bits):
    bits = (bits + 0x9E3779B97F4A7C15) & MASK
    bits = (bits ^ bits >> 30) * 0xBF58476D1CE4E5B9 & MASK
    bits = (bits ^ bits >> 27) * 0x94D049BB133111EB & MASK
    return bits ^ bits >> 31


def key_of(name):
    value = 0xCBF29CE484222325
    for byte in name.encode():
        value = (value ^ byte) * 0x100000001B3 & MASK
    return value


def batch(text, first, samples, sequence):
    """Tokens and targets of the samples from the so manyth on."""
    rows = []
    for number in range(first, first + samples):
        drawn = mix(mix(mix(SEED) ^ key_of("data.place")) ^ number)
        place = drawn % (len(text) - sequence)
        rows.append(list(text[place : place + sequence + 1]))
    tokens = torch.tensor(rows)
    return tokens[:, :-1].contiguous(), tokens[:, 1:].contiguous()


def read_weights(path):
    data = pathlib.Path(path).read_bytes()
    length = struct.unpack("<Q", data[:8])[0]
    weights = {}
    for name, entry in json.loads(data[8 : 8 + length]).items():
        if name == "__metadata__":
            continue
        begin, end = (8 + length + offset for offset in entry["data_offsets"])
        values = torch.frombuffer(bytearray(data[begin:end]), dtype=torch.float32)
        weights[name.removeprefix("transformer.")] = values.reshape(entry["shape"])
    return weights


# ---- GPT-2, as much of it as a stage has ----


class Stage(torch.nn.Module):
    def __init__(self, model, layers, blocks, weights):
        super().__init__()
        self.heads, self.blocks = model["heads"], blocks
        self.embeds, self.ends = "embedding" in layers, "head" in layers
        prefixes = [f"h.{block}." for block in blocks]
        prefixes += ["wte.", "wpe."] * self.embeds + ["ln_f.", "lm_head."] * self.ends
        self.weights = torch.nn.ParameterDict(
            {name.replace(".", "/"): torch.nn.Parameter(value.clone())
             for name, value in weights.items() if name.startswith(tuple(prefixes))}
        )

    def get(self, name):
        return self.weights[name.replace(".", "/")]

    def norm(self, name, x):
        return torch.nn.functional.layer_norm(x, x.shape[-1:], self.get(name + ".weight"), self.get(name + ".bias"))

    def product(self, name, x):
        return x @ self.get(name + ".weight") + self.get(name + ".bias")

    def block(self, name, x):
        q, k, v = (
            part.unflatten(-1, (self.heads, -1)).transpose(1, 2)
            for part in self.product(name + "attn.c_attn", self.norm(name + "ln_1", x)).chunk(3, dim=-1)
        )
        mixed = torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.product(name + "attn.c_proj", mixed.transpose(1, 2).flatten(2))
        inner = self.product(name + "mlp.c_fc", self.norm(name + "ln_2", x))
        return x + self.product(name + "mlp.c_proj", torch.nn.functional.gelu(inner, approximate="tanh"))

    def forward(self, x):
        if self.embeds:
            x = torch.nn.functional.embedding(x, self.get("wte.weight")) + self.get("wpe.weight")[: x.shape[1]]
        for block in self.blocks:
            x = self.block(f"h.{block}.", x)
        if self.ends:
            x = self.norm("ln_f", x) @ self.get("lm_head.weight").T
        return x


def cross_entropy(logits, targets):
    return torch.nn.functional.cross_entropy(logits.flatten(0, 1), targets.flatten())


# ---- One rank ----


def watched(stage, executed, times):
    """Notes which op of the stage runs when, and how long."""

    def around(method, kind_of):
        def run(microbatch, *rest, **named):
            kind = kind_of(**named)
            executed.append(f"{stage.stage_index}{kind}{microbatch}")
            start = time.perf_counter()
            result = method(microbatch, *rest, **named)
            times[f"{stage.stage_index}{kind}"].append(time.perf_counter() - start)
            return result

        return run

    stage.forward_one_chunk = around(stage.forward_one_chunk, lambda **_: "F")
    stage.backward_one_chunk = around(
        stage.backward_one_chunk, lambda full_backward=True, **_: "B" if full_backward else "I"
    )
    stage.backward_weight_one_chunk = around(stage.backward_weight_one_chunk, lambda **_: "W")


def stages_of(rank, job):
    """PyTorch's stages on this rank, in order."""
    described, device = job["plan"]["stages"], {}
    for index, stage in enumerate(described):
        (device[index],) = stage["devices"]
    blocks, made = 0, []
    for index, stage in enumerate(described):
        count = stage["layers"].count("mlp")
        if device[index] == rank:
            module = Stage(job["plan"]["model"], stage["layers"], range(blocks, blocks + count), job["weights"])
            made.append(PipelineStage(module, index, len(described), torch.device("cpu")))
            made[-1].stage_index_to_group_rank = device
        blocks += count
    return made


def run_rank(rank, job, results):
    torch.set_num_threads(1)
    plan, last = job["plan"], None
    ranks = plan["depth"]
    dist.init_process_group("gloo", init_method=f"file://{job['folder']}/meet", rank=rank, world_size=ranks)
    stages = stages_of(rank, job)
    executed, times = [], collections.defaultdict(list)
    for stage in stages:
        watched(stage, executed, times)
        last = stage if stage.is_last else last
    microbatches = plan["microbatches"]
    # Versions differ in whether they divide gradients: each microbatch's loss is a part here.
    known = inspect.signature(_PipelineScheduleRuntime.__init__).parameters
    schedule = _PipelineScheduleRuntime(
        stages, microbatches, loss_fn=lambda *of: cross_entropy(*of) / microbatches,
        **({"scale_grads": False} if "scale_grads" in known else {}),
    )
    schedule._load_csv(job["csv"])
    optimizer = torch.optim.AdamW(
        [parameter for stage in stages for parameter in stage.submod.parameters()],
        lr=RATE, betas=(0.9, 0.95), eps=1e-8, weight_decay=0.0,
    )
    samples, losses, seconds, updates = plan["global_batch"], [], [], []
    for step in range(job["steps"]):
        tokens, targets = batch(job["text"], step * samples, samples, plan["model"]["sequence"])
        executed.clear()
        dist.barrier()
        start = time.perf_counter()
        optimizer.zero_grad()
        of_microbatches = []
        given = [tokens] if any(stage.is_first for stage in stages) else []
        if last is not None:
            schedule.step(*given, target=targets, losses=of_microbatches)
            losses.append(torch.stack(of_microbatches).sum().item())
        else:
            schedule.step(*given)
        update = time.perf_counter()
        optimizer.step()
        updates.append(time.perf_counter() - update)
        dist.barrier()
        seconds.append(time.perf_counter() - start)
    medians = {kind: statistics.median(of) for kind, of in times.items()}
    results.put((rank, list(executed), losses, seconds, medians, statistics.median(updates)))
    dist.destroy_process_group()


# ---- Both sides ----


def run(*command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: {done.stderr}")
    return done.stdout


def pytorch(job):
    context = multiprocessing.get_context("spawn")
    results = context.Queue()
    processes = [
        context.Process(target=run_rank, args=(rank, job, results)) for rank in range(job["plan"]["depth"])
    ]
    for process in processes:
        process.start()
    ranks = {}
    while len(ranks) < len(processes):
        try:
            rank, *rest = results.get(timeout=1.0)
            ranks[rank] = rest
        except Exception:  # queue.Empty, while a rank works or has failed
            if any(process.exitcode for process in processes):
                for process in processes:
                    process.kill()
                sys.exit("a rank of PyTorch failed")
    for process in processes:
        process.join()
    return [ranks[rank] for rank in sorted(ranks)]


def simulated_seconds(tandem, job, ranks):
    """A step by tandem's simulation of the same order at PyTorch's times of ops."""
    medians, update = {}, {}
    for _, _, _, times, updating in ranks:
        medians.update(times)
        for kind in times:
            update[kind[:-1]] = updating
    rows = []
    for stage in range(len(job["plan"]["stages"])):
        at = {kind: round(1e9 * medians.get(f"{stage}{kind}", 0.0)) for kind in "FBIW"}
        row = {"forward_ns": at["F"], "update_ns": round(1e9 * update[str(stage)])}
        if at["I"]:
            row |= {"backward_input_ns": at["I"], "backward_weight_ns": at["W"]}
        if at["B"]:
            row["backward_ns"] = at["B"]
            if at["I"] and at["I"] + at["W"] != at["B"]:
                row |= {"backward_input_ns": at["I"], "backward_weight_ns": at["W"]}
        rows.append(row)
    costs = pathlib.Path(job["folder"], "costs.json")
    costs.write_text(json.dumps({"version": 1, "stages": rows}))
    told = run(tandem, "simulate", "--schedule-file", job["csv"], "--costs", str(costs), "--json")
    return json.loads(told)["result"]["makespan_s"]


def job_of(tandem, plan, steps, csv, folder):
    described = json.loads(run(tandem, "export", plan, "--to", "json"))
    if described["width"] != 1 or described["model"]["tied"] or described["model"]["architecture"] != "gpt2":
        sys.exit(f"{plan}: one pipeline of a GPT-2 without tied embeddings is run here")
    if csv is None:
        csv = f"{folder}/order.csv"
        run(tandem, "export", plan, "--to", "pytorch-csv", "--output", csv)
    text = (pathlib.Path(__file__).parents[2] / "executor/data/kjv_excerpt.txt").read_bytes()[:20_000]
    pathlib.Path(folder, "text").write_bytes(text)
    train = [tandem, "train", plan, "--data", f"{folder}/text", "--seed", str(SEED), "--json"]
    run(*train, "--steps", "1", "--learning-rate", "0", "--checkpoint", f"{folder}/first")
    told = run(*train, "--steps", str(steps), "--learning-rate", str(RATE))
    (weights,) = pathlib.Path(folder, "first").rglob("model*.safetensors")
    return {
        "plan": described, "steps": steps, "csv": csv, "folder": folder, "text": text,
        "weights": read_weights(weights), "losses": json.loads(told)["result"]["losses"],
    }


def own_orders(described):
    """Compute ops of each rank, as the plan's schedule has them in tandem's notation."""
    letters = dict(zip("fbiw", "FBIW"))
    stages = described["stages"]
    ranks = []
    for line in described["order"]:
        if "|" not in line or line.startswith("#"):
            continue
        device, ops = line.split("|")
        held = [i for i, stage in enumerate(stages) if stage["devices"] == [int(device)]]
        row = []
        for op in ops.split():
            match = re.match(r"(\d*)([fbiw])(\d+)", op)
            if match:
                row.append(f"{match[1] or held[0]}{letters[match[2]]}{match[3]}")
        ranks.append(row)
    return ranks


def main():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("tandem")
    parser.add_argument("plan")
    parser.add_argument("--steps", type=int, default=4)
    parser.add_argument("--csv", help="run this order instead of the plan's own")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tandem = os.path.abspath(arguments.tandem)
        job = job_of(tandem, arguments.plan, arguments.steps, arguments.csv, folder)
        ranks = pytorch(job)
        wanted = own_orders(job["plan"])
        executed = [rank[0] for rank in ranks]
        losses = next(rank[1] for rank in ranks if rank[1])
        apart = max(abs(one / other - 1) for one, other in zip(losses, job["losses"]))
        seconds = statistics.median(max(of) for of in zip(*(rank[2][1:] for rank in ranks)))
        predicted = simulated_seconds(tandem, job, ranks)
    same = executed == wanted
    print(f"{job['plan']['schedule']}: {sum(map(len, executed))} ops a step in the {'same' if same else 'WRONG'} order;"
          f" losses {losses[0]:.6f} to {losses[-1]:.6f}, {apart:.1e} from tandem's;"
          f" a step {1e3 * seconds:.1f} ms, simulated {1e3 * predicted:.1f} ms ({100 * (predicted / seconds - 1):+.1f} %)")
    sys.exit(0 if same and len(losses) == len(job["losses"]) and apart < TOLERANCE else 1)


if __name__ == "__main__":
    main()
