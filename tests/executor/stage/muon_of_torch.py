#!/usr/bin/env python3
"""Writes muon_of_torch.h, beside this: weights after 20 steps of torch.optim.Muon (torch 2.15).

Of a weight of 5 inputs and 12 outputs, and of one of 12 and 5. Once with torch's own iteration, in
bfloat16, and once with the same in float32. Element i of a weight, as tandem stores it (inputs by
outputs), and of gradients is made by numbers().

    python3 -m venv build/venv && build/venv/bin/pip install torch
    build/venv/bin/python tests/executor/stage/muon_of_torch.py
"""

import pathlib

import torch
from torch.optim import _muon

STEPS = 20


def numbers(inputs, outputs, step):
    """Dyadic, so that all kinds of numbers have the same."""
    count = inputs * outputs
    values = [((7919 * i + 4729 * step + 13) % 1009 - 504) / 512 for i in range(count)]
    return torch.tensor(values, dtype=torch.float32).reshape(inputs, outputs).T.contiguous()


def in_float(gradient, coefficients, steps, eps):
    a, b, c = coefficients
    tall = gradient.size(0) > gradient.size(1)
    x = gradient.T if tall else gradient
    x = x / x.norm().clamp(min=eps)
    for _ in range(steps):
        gram = x @ x.T
        x = a * x + (b * gram + c * gram @ gram) @ x
    return x.T if tall else x


def weights_after(inputs, outputs, scale):
    weight = torch.nn.Parameter(numbers(inputs, outputs, 0))
    muon = torch.optim.Muon([weight], lr=0.02, weight_decay=0.1, momentum=0.95, adjust_lr_fn=scale)
    for step in range(1, STEPS + 1):
        weight.grad = numbers(inputs, outputs, step)
        muon.step()
    return weight.detach().T.contiguous().flatten().tolist()


def main():
    own = _muon._zeropower_via_newtonschulz
    rows = []
    for inputs, outputs in ((5, 12), (12, 5)):
        for scale in ("match_rms_adamw", "original"):
            for exact in (True, False):
                _muon._zeropower_via_newtonschulz = in_float if exact else own
                values = [f"{value:.9g}" for value in weights_after(inputs, outputs, scale)]
                lines = [", ".join(values[i : i + 6]) for i in range(0, len(values), 6)]
                rows.append(
                    f"    {{{inputs}, {outputs}, MuonScale::{scale}, {str(exact).lower()},\n     {{"
                    + ",\n      ".join(lines)
                    + "}}"
                )
    cases = ",\n".join(rows)
    text = f"""#pragma once
// Weights after 20 steps of torch.optim.Muon ({torch.__version__}): written by muon_of_torch.py.

#include <cstdint>
#include <vector>

#include "executor/stage/muon.h"

namespace tandem::testing {{

struct TorchMuon {{
  std::int64_t inputs, outputs;
  MuonScale scale;
  bool exact;  // the iteration in float32; else torch's own, in bfloat16
  std::vector<double> weights;
}};

// clang-format off
inline const std::vector<TorchMuon> kTorchMuon{{
{cases}}};
// clang-format on

}}  // namespace tandem::testing
"""
    pathlib.Path(__file__).with_name("muon_of_torch.h").write_text(text)


if __name__ == "__main__":
    main()
