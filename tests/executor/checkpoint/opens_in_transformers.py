"""A checkpoint opened by Hugging Face's library: its loss on a text, and the text that it goes on
with, must be those of tandem.

    python3 -m venv venv && venv/bin/pip install torch transformers
    venv/bin/python opens_in_transformers.py TANDEM CHECKPOINT TEXT

Cuts the text, of bytes, into samples side by side as `tandem evaluate` does, and compares the mean
loss. Ends with 1 where they differ by more than 1e-5, relative.
"""

import json
import subprocess
import sys

import torch
from transformers import AutoModelForCausalLM

tandem, folder, path = sys.argv[1:]
command = [tandem, "evaluate", folder, "--data", path, "--json"]
ours = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)
length = ours["config"]["sequence"]
model = AutoModelForCausalLM.from_pretrained(ours["config"]["folder"], dtype=torch.float32).eval()
text = torch.tensor(list(open(path, "rb").read()))
losses = []
with torch.no_grad():
    for first in range(0, len(text) - length, length):
        logits = model(text[first : first + length].unsqueeze(0)).logits[0]
        targets = text[first + 1 : first + length + 1]
        losses.append(torch.nn.functional.cross_entropy(logits.double(), targets).item())
theirs = sum(losses) / len(losses)
difference = abs(theirs / ours["result"]["loss"] - 1)
print(f"loss {ours['result']['loss']:.8f}, by transformers {theirs:.8f}: {difference:.1e} apart; {len(losses)} samples")
prompt = list(text[:8])
command = [tandem, "generate", folder, "--prompt", bytes(prompt).decode(), "--tokens", "24", "--json"]
ours_text = json.loads(subprocess.run(command, check=True, capture_output=True).stdout)["result"]["tokens"]
with torch.no_grad():
    for _ in range(24):
        logits = model(torch.tensor(prompt).unsqueeze(0)).logits[0, -1]
        prompt.append(torch.tensor(int(logits.argmax())))
same = ours_text == [int(token) for token in prompt]
print(f"the same text: {same}: {bytes(ours_text)}")
sys.exit(0 if same and difference < 1e-5 and len(losses) == ours["result"]["samples"] else 1)
