"""A checkpoint opened by Hugging Face's library: its loss on a text, and the text that it goes on
with, must be those of tandem; and tandem's those of what the library writes of it, in shards.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python opens_in_transformers.py TANDEM CHECKPOINT TEXT

Cuts the text, of bytes, into samples side by side as `tandem evaluate` does, and compares the mean
loss. Ends with 1 where they differ by more than 1e-5, relative.
"""

import json
import subprocess
import sys
import tempfile

import torch
from transformers import AutoModelForCausalLM

TOLERANCE = 1e-5


def result_of(*command):
    return json.loads(subprocess.run(command, check=True, capture_output=True).stdout)


def loss_of(model, text, length):
    losses = []
    with torch.no_grad():
        for first in range(0, len(text) - length, length):
            logits = model(text[first : first + length].unsqueeze(0)).logits[0]
            targets = text[first + 1 : first + length + 1]
            losses.append(torch.nn.functional.cross_entropy(logits.double(), targets).item())
    return sum(losses) / len(losses), len(losses)


def going_on(model, tokens, more):
    tokens = list(tokens)
    with torch.no_grad():
        for _ in range(more):
            logits = model(torch.tensor(tokens).unsqueeze(0)).logits[0, -1]
            tokens.append(int(logits.argmax()))
    return tokens


def main(tandem, folder, path):
    ours = result_of(tandem, "evaluate", folder, "--data", path, "--json")
    model = AutoModelForCausalLM.from_pretrained(ours["config"]["folder"]).float().eval()
    data = open(path, "rb").read()
    text, length = torch.tensor(list(data)), ours["config"]["sequence"]
    theirs, samples = loss_of(model, text, length)
    failed = []

    def compare(what, one, other):
        difference = abs(other / one - 1)
        print(f"{what}: loss {one:.8f}, {other:.8f}: {difference:.1e} apart")
        return difference < TOLERANCE

    if not compare(f"by tandem, by transformers, {samples} samples", ours["result"]["loss"], theirs):
        failed.append("loss")
    if samples != ours["result"]["samples"]:
        failed.append("samples")
    prompt = data[:8]
    said = result_of(tandem, "generate", folder, "--prompt", prompt.decode(), "--tokens", "24", "--json")
    tokens = said["result"]["tokens"]
    expected = going_on(model, prompt, 24)
    print(f"the text: {bytes(tokens)}, by transformers {bytes(expected)}")
    if tokens != expected:
        failed.append("text")
    with tempfile.TemporaryDirectory() as shards:
        model.save_pretrained(shards, max_shard_size="200KB")
        again = result_of(tandem, "evaluate", shards, "--data", path, "--json")
    if again["result"]["loss"] != ours["result"]["loss"]:
        failed.append("shards")
    # The control: weights that are a little larger are found.
    with torch.no_grad():
        for weights in model.parameters():
            weights.mul_(1.01)
    if compare("of other weights", ours["result"]["loss"], loss_of(model, text, length)[0]):
        failed.append("control")
    print(*failed or ["equal"])
    sys.exit(len(failed) > 0)


if __name__ == "__main__":
    main(*sys.argv[1:])
