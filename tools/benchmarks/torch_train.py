#!/usr/bin/env python3
"""The peer of tools/scripts/bench's training benchmark: the same model, data and first weights in PyTorch.

usage: torch_train.py FOLDER --steps N --threads N [--bf16] [--gpu] [--compile]

FOLDER holds what the benchmark wrote: task.json (the model, the optimizer, the tensors' names and
shapes), weights.f32 (the tensors one after the other) and tokens.i32 (for each step the tokens,
then the targets, of a whole batch). Prints one JSON object: the loss and the seconds of each step.
"""

import argparse
import json
import math
import os
import sys
import time

import torch
from torch import nn
from torch.nn import functional as F


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--steps", type=int, required=True)
    parser.add_argument("--threads", type=int, required=True)
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--gpu", action="store_true", help="on the first GPU instead of the CPU")
    parser.add_argument("--compile", action="store_true", help="by torch.compile")
    return parser.parse_args()


def read_task(folder):
    with open(os.path.join(folder, "task.json"), encoding="utf-8") as file:
        task = json.load(file)
    weights = torch.from_file(os.path.join(folder, "weights.f32"), dtype=torch.float32,
                              size=sum(math.prod(t["shape"]) for t in task["tensors"]))
    parts = torch.split(weights, [math.prod(t["shape"]) for t in task["tensors"]])
    tensors = {t["name"]: part.reshape(t["shape"]).clone()
               for t, part in zip(task["tensors"], parts)}
    batch, sequence = task["batch"], task["sequence"]
    tokens = torch.from_file(os.path.join(folder, "tokens.i32"), dtype=torch.int32,
                             size=task["steps"] * 2 * batch * sequence)
    return task, tensors, tokens.long().reshape(task["steps"], 2, batch, sequence)


class Projection(nn.Linear):
    """A linear layer whose weight the file holds as (inputs, outputs)."""

    def __init__(self, tensors, prefix):
        weight = tensors[prefix + ".weight"]
        bias = tensors.get(prefix + ".bias")
        super().__init__(weight.shape[0], weight.shape[1], bias=bias is not None)
        self.weight = nn.Parameter(weight.t().contiguous())
        if bias is not None:
            self.bias = nn.Parameter(bias)


class Norm(nn.LayerNorm):
    def __init__(self, tensors, prefix):
        gain = tensors[prefix + ".gain"]
        super().__init__(gain.shape[0], eps=1e-5)
        self.weight = nn.Parameter(gain)
        self.bias = nn.Parameter(tensors[prefix + ".bias"])


class Attention(nn.Module):
    def __init__(self, tensors, prefix, heads, sequence):
        super().__init__()
        self.heads = heads
        self.norm = Norm(tensors, prefix + ".norm")
        self.qkv = Projection(tensors, prefix + ".qkv")
        self.projection = Projection(tensors, prefix + ".projection")
        hidden = torch.full((sequence, sequence), float("-inf")).triu(1)
        self.register_buffer("hidden", hidden)

    def attend(self, query, key, value):
        if hasattr(F, "scaled_dot_product_attention"):  # PyTorch 2
            return F.scaled_dot_product_attention(query, key, value, is_causal=True)
        batch, heads, sequence, channels = query.shape
        flat = [t.reshape(batch * heads, sequence, channels) for t in (query, key, value)]
        scores = torch.baddbmm(self.hidden.to(query.dtype), flat[0], flat[1].transpose(1, 2),
                               alpha=1.0 / math.sqrt(channels))
        return torch.bmm(F.softmax(scores, dim=-1), flat[2]).reshape(query.shape)

    def forward(self, x):
        batch, sequence, width = x.shape
        parts = self.qkv(self.norm(x)).split(width, dim=2)
        shape = (batch, sequence, self.heads, width // self.heads)
        attended = self.attend(*(part.view(shape).transpose(1, 2) for part in parts))
        return x + self.projection(attended.transpose(1, 2).reshape(batch, sequence, width))


class Mlp(nn.Module):
    def __init__(self, tensors, prefix):
        super().__init__()
        self.norm = Norm(tensors, prefix + ".norm")
        self.expand = Projection(tensors, prefix + ".expand")
        self.projection = Projection(tensors, prefix + ".projection")

    def forward(self, x):
        return x + self.projection(F.gelu(self.expand(self.norm(x)), approximate="tanh"))


class Model(nn.Module):
    """GPT-2's architecture; the head's projection is the token embedding."""

    def __init__(self, task, tensors):
        super().__init__()
        self.token = nn.Parameter(tensors["embedding.token.weight"])
        self.position = nn.Parameter(tensors["embedding.position.weight"])
        layers = []
        for block in range(task["blocks"]):
            layers.append(Attention(tensors, f"block{block}.attention", task["heads"],
                                    task["sequence"]))
            layers.append(Mlp(tensors, f"block{block}.mlp"))
        self.layers = nn.Sequential(*layers)
        self.norm = Norm(tensors, "head.norm")

    def forward(self, tokens, targets):
        x = F.embedding(tokens, self.token) + self.position
        logits = F.linear(self.norm(self.layers(x)), self.token)
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.view(-1))


class RmsNorm(nn.Module):
    def __init__(self, tensors, prefix, epsilon):
        super().__init__()
        self.weight = nn.Parameter(tensors[prefix + ".gain"])
        self.epsilon = epsilon

    def forward(self, x):
        if hasattr(F, "rms_norm"):  # PyTorch 2.4
            return F.rms_norm(x, self.weight.shape, self.weight, self.epsilon)
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.epsilon) * self.weight


class LlamaAttention(Attention):
    def __init__(self, tensors, prefix, task):
        nn.Module.__init__(self)
        self.heads, self.kept = task["heads"], task["key_value_heads"]
        self.channels = task["head_width"]
        self.norm = RmsNorm(tensors, prefix + ".norm", task["norm_epsilon"])
        self.qkv = Projection(tensors, prefix + ".qkv")
        self.projection = Projection(tensors, prefix + ".projection")
        sequence = task["sequence"]
        self.register_buffer("hidden", torch.full((sequence, sequence), float("-inf")).triu(1))
        powers = torch.arange(0, self.channels, 2).float() / self.channels
        angles = torch.outer(torch.arange(sequence).float(), task["rotary_theta"] ** -powers)
        angles = torch.cat((angles, angles), -1)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def turn(self, x):
        first, second = x.chunk(2, -1)
        return x * self.cosine + torch.cat((-second, first), -1) * self.sine

    def forward(self, x):
        batch, sequence, _ = x.shape
        counts = (self.heads, self.kept, self.kept)
        parts = self.qkv(self.norm(x)).split([count * self.channels for count in counts], -1)
        query, key, value = (part.view(batch, sequence, count, self.channels).transpose(1, 2)
                             for part, count in zip(parts, counts))
        each = self.heads // self.kept  # faster than enable_gqa on the CPU
        key = self.turn(key).repeat_interleave(each, 1)
        value = value.repeat_interleave(each, 1)
        attended = self.attend(self.turn(query), key, value)
        return x + self.projection(attended.transpose(1, 2).reshape(batch, sequence, -1))


class LlamaMlp(nn.Module):
    def __init__(self, tensors, prefix, task):
        super().__init__()
        self.norm = RmsNorm(tensors, prefix + ".norm", task["norm_epsilon"])
        self.expand = Projection(tensors, prefix + ".expand")
        self.projection = Projection(tensors, prefix + ".projection")

    def forward(self, x):
        gate, up = self.expand(self.norm(x)).chunk(2, -1)
        return x + self.projection(F.silu(gate) * up)


class Llama(nn.Module):
    """Rotary positions, grouped heads, gated MLPs; the head has a table of its own."""

    def __init__(self, task, tensors):
        super().__init__()
        self.token = nn.Parameter(tensors["embedding.token.weight"])
        layers = []
        for block in range(task["blocks"]):
            layers.append(LlamaAttention(tensors, f"block{block}.attention", task))
            layers.append(LlamaMlp(tensors, f"block{block}.mlp", task))
        self.layers = nn.Sequential(*layers)
        self.norm = RmsNorm(tensors, "head.norm", task["norm_epsilon"])
        self.head = nn.Parameter(tensors["head.projection.weight"])

    def forward(self, tokens, targets):
        x = self.layers(F.embedding(tokens, self.token))
        logits = F.linear(self.norm(x), self.head)
        return F.cross_entropy(logits.float().view(-1, logits.shape[-1]), targets.view(-1))


def main():
    options = parse()
    torch.set_num_threads(options.threads)
    task, tensors, tokens = read_task(options.folder)
    device = "cuda" if options.gpu else "cpu"
    # As --products f32 of ours: no TF32.
    torch.backends.cuda.matmul.allow_tf32 = False
    model = (Llama if "key_value_heads" in task else Model)(task, tensors).to(device)
    tokens = tokens.to(device)
    fused = {"fused": True} if options.gpu else {}
    optimizer = torch.optim.AdamW(model.parameters(), lr=task["learning_rate"],
                                  betas=(task["beta1"], task["beta2"]), eps=task["epsilon"],
                                  weight_decay=0.0, **fused)
    compute = torch.compile(model) if options.compile else model
    losses, seconds = [], []
    for step in range(options.steps):
        start = time.perf_counter()
        batch = tokens[step % task["steps"]]
        with torch.autocast(device, dtype=torch.bfloat16, enabled=options.bf16):
            loss = compute(batch[0], batch[1])
        loss.backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        losses.append(loss.item())  # waits for what a GPU was given up to the loss
        if options.gpu:
            torch.cuda.synchronize()
        seconds.append(time.perf_counter() - start)
    json.dump({"torch": torch.__version__, "losses": losses, "seconds": seconds}, sys.stdout)


if __name__ == "__main__":
    main()
