#!/usr/bin/env python3
"""Writes models_of_transformers.h, beside this: what tiny models of transformers 5.24 compute. With
--check an older transformers, too, says whether it computes the same: of the kinds that it knows.

GPT-2, Llama 3 with its scaling of rotary positions, Qwen 2 and Qwen 3, with weights and tokens that
weight() and token() make for both sides. Of each the configuration, the loss, of each tensor of
tandem's the gradient's length, its product with direction() and four of its elements, and losses
of 20 steps of torch.optim.AdamW.

    python3 -m venv build/venv && build/venv/bin/pip install torch transformers
    build/venv/bin/python tests/executor/models_of_transformers.py
"""

import json
import pathlib
import re
import sys

import torch
import transformers

BATCH, SEQUENCE, STEPS = 2, 12, 20


def weight(tensor, count, is_gain):
    """Of the so manyth tensor, in the order of tandem's model: dyadic, so that all have the same."""
    values = [((7919 * i + 4729 * tensor + 13) % 1009 - 504) / 2048 for i in range(count)]
    return torch.tensor(values, dtype=torch.float64) + (1.0 if is_gain else 0.0)


def token(i, vocabulary):
    return (7 * i * i + 3 * i + 5) % vocabulary


def direction(count):
    values = [((2083 * i + 17) % 97 - 48) / 48 for i in range(count)]
    return torch.tensor(values, dtype=torch.float64)


class Part:
    """A tensor of tandem's: some of transformers', side by side, turned where `turned` says."""

    def __init__(self, name, parameters, turned=False):
        self.name, self.parameters, self.turned = name, parameters, turned

    def whole(self, of):
        parts = [of(parameter) for parameter in self.parameters]
        whole = torch.cat(parts, dim=0)
        return (whole.T if self.turned else whole).contiguous().flatten()

    def set(self, values):
        whole = self.whole(lambda parameter: parameter.detach())
        assert whole.numel() == values.numel()
        rows = sum(parameter.shape[0] for parameter in self.parameters)
        if self.turned:
            values = values.reshape(-1, rows).T
        values = values.reshape(rows, *self.parameters[0].shape[1:])
        at = 0
        for parameter in self.parameters:
            parameter.data.copy_(values[at : at + parameter.shape[0]])
            at += parameter.shape[0]


def parts_of_gpt2(model):
    body = model.transformer
    parts = [
        Part("embedding.token.weight", [body.wte.weight]),
        Part("embedding.position.weight", [body.wpe.weight]),
    ]
    for i, block in enumerate(body.h):
        for layer, norm, products in (
            ("attention", block.ln_1, {"qkv": block.attn.c_attn, "projection": block.attn.c_proj}),
            ("mlp", block.ln_2, {"expand": block.mlp.c_fc, "projection": block.mlp.c_proj}),
        ):
            prefix = f"block{i}.{layer}"
            parts += [Part(f"{prefix}.norm.gain", [norm.weight]), Part(f"{prefix}.norm.bias", [norm.bias])]
            for name, product in products.items():
                parts += [
                    Part(f"{prefix}.{name}.weight", [product.weight]),
                    Part(f"{prefix}.{name}.bias", [product.bias]),
                ]
    return parts + [
        Part("head.norm.gain", [body.ln_f.weight]),
        Part("head.norm.bias", [body.ln_f.bias]),
    ]


def parts_of_llama(model):
    parts = [Part("embedding.token.weight", [model.model.embed_tokens.weight])]
    for i, block in enumerate(model.model.layers):
        attention, mlp = block.self_attn, block.mlp
        qkv = [attention.q_proj, attention.k_proj, attention.v_proj]
        prefix = f"block{i}.attention"
        parts.append(Part(f"{prefix}.norm.gain", [block.input_layernorm.weight]))
        parts.append(Part(f"{prefix}.qkv.weight", [one.weight for one in qkv], True))
        if qkv[0].bias is not None:
            parts.append(Part(f"{prefix}.qkv.bias", [one.bias for one in qkv]))
        if hasattr(attention, "q_norm"):
            parts.append(Part(f"{prefix}.query_norm.gain", [attention.q_norm.weight]))
            parts.append(Part(f"{prefix}.key_norm.gain", [attention.k_norm.weight]))
        parts.append(Part(f"{prefix}.projection.weight", [attention.o_proj.weight], True))
        prefix = f"block{i}.mlp"
        parts.append(Part(f"{prefix}.norm.gain", [block.post_attention_layernorm.weight]))
        parts.append(
            Part(f"{prefix}.expand.weight", [mlp.gate_proj.weight, mlp.up_proj.weight], True)
        )
        parts.append(Part(f"{prefix}.projection.weight", [mlp.down_proj.weight], True))
    parts.append(Part("head.norm.gain", [model.model.norm.weight]))
    if model.lm_head.weight is not model.model.embed_tokens.weight:
        parts.append(Part("head.projection.weight", [model.lm_head.weight]))
    return parts


def models():
    size = {"vocab_size": 24, "max_position_embeddings": SEQUENCE}
    gpt2 = transformers.GPT2Config(
        **size, n_embd=16, n_layer=2, n_head=4, resid_pdrop=0.0, embd_pdrop=0.0, attn_pdrop=0.0
    )
    gpt2.n_positions = SEQUENCE
    common = {
        **size,
        "hidden_size": 16,
        "num_hidden_layers": 2,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "intermediate_size": 21,
    }
    scaled = {
        "rope_type": "llama3",
        "rope_theta": 50.0,
        "factor": 4.0,
        "low_freq_factor": 1.0,
        "high_freq_factor": 3.0,
        "original_max_position_embeddings": 16,
    }
    plain = {"rope_type": "default", "rope_theta": 100.0}
    llama = transformers.LlamaConfig(**common, head_dim=8, **rotary(scaled))
    qwen2 = transformers.Qwen2Config(**common, **rotary(plain))
    yield transformers.GPT2LMHeadModel, gpt2, parts_of_gpt2
    yield transformers.LlamaForCausalLM, llama, parts_of_llama
    yield transformers.Qwen2ForCausalLM, qwen2, parts_of_llama
    if not hasattr(transformers, "Qwen3Config"):
        return
    qwen3 = transformers.Qwen3Config(
        **common, head_dim=6, **rotary(plain), tie_word_embeddings=True
    )
    yield transformers.Qwen3ForCausalLM, qwen3, parts_of_llama


def rotary(positions):
    if int(transformers.__version__.split(".")[0]) >= 5:
        return {"rope_parameters": positions}
    scaling = {key: value for key, value in positions.items() if key != "rope_theta"}
    is_plain = positions["rope_type"] == "default"
    return {"rope_theta": positions["rope_theta"], "rope_scaling": None if is_plain else scaling}


def logits_and_targets(model, step):
    vocabulary, count = model.config.vocab_size, BATCH * (SEQUENCE + 1)
    all_tokens = [token(i + step * count, vocabulary) for i in range(count)]
    rows = torch.tensor(all_tokens).reshape(BATCH, SEQUENCE + 1)
    logits = model(rows[:, :-1]).logits
    return logits.reshape(-1, vocabulary), rows[:, 1:].reshape(-1)


def loss_of(model, step):
    return torch.nn.functional.cross_entropy(*logits_and_targets(model, step))


def number(value):
    return f"{float(value.detach()):.12g}"


def measured(make, config, parts_of, factor=1.0):
    config._attn_implementation = "eager"
    model = make(config).to(torch.float64)
    model.train()
    parts = parts_of(model)
    for i, part in enumerate(parts):
        count = part.whole(lambda parameter: parameter.detach()).numel()
        part.set(factor * weight(i, count, part.name.endswith("gain")))
    assert sum(p.numel() for p in model.parameters()) == sum(
        part.whole(lambda parameter: parameter.detach()).numel() for part in parts
    )
    logits = logits_and_targets(model, 0)[0].detach()[:: 5].flatten()
    said = [", ".join(number(one) for one in logits[i : i + 5]) for i in range(0, len(logits), 5)]
    loss = loss_of(model, 0)
    loss.backward()
    rows = []
    for part in parts:
        gradient = part.whole(lambda parameter: parameter.grad)
        count = gradient.numel()
        elements = [gradient[i * (count - 1) // 3] for i in range(4)]
        rows.append(
            f'      {{"{part.name}", {number(gradient.norm())}, '
            f"{number(gradient @ direction(count))},\n       "
            f"{{{', '.join(number(one) for one in elements)}}}}}"
        )
    decayed = [p for p in model.parameters() if p.dim() > 1]
    others = [p for p in model.parameters() if p.dim() == 1]
    adamw = torch.optim.AdamW(
        [{"params": decayed, "weight_decay": 0.1}, {"params": others, "weight_decay": 0.0}],
        lr=1e-2,
        betas=(0.9, 0.95),
        eps=1e-8,
    )
    losses = []
    for step in range(STEPS):
        adamw.zero_grad()
        at = loss_of(model, step)
        at.backward()
        losses.append(number(at))
        adamw.step()
    losses.append(number(loss_of(model, STEPS)))
    text = json.loads(config.to_json_string(use_diff=False))
    kept = {k: v for k, v in text.items() if k in KEYS or k in config.to_diff_dict()}
    kept.pop("transformers_version", None)
    kept.pop("_attn_implementation", None)
    lines = [", ".join(losses[i : i + 5]) for i in range(0, len(losses), 5)]
    return (
        "    {R\"(" + json.dumps(kept, indent=1) + ")\",\n     " + number(loss) + ",\n     {"
        + ",\n      ".join(said) + "},\n     {\n"
        + ",\n".join(rows) + "},\n     {" + ",\n      ".join(lines) + "}}"
    )


KEYS = ("model_type", "hidden_act", "activation_function", "rms_norm_eps", "layer_norm_epsilon",
        "rope_parameters", "tie_word_embeddings")


def main():
    torch.manual_seed(1)
    cases = ",\n".join(measured(*one) for one in models())
    text = f"""#pragma once
// What tiny models of transformers {transformers.__version__} (torch {torch.__version__}) compute:
// written by models_of_transformers.py, which says how weights and tokens are made.

#include <array>
#include <string>
#include <vector>

namespace tandem::testing {{

inline constexpr int kBatchOfTransformers = {BATCH}, kSequenceOfTransformers = {SEQUENCE};

struct GradientOfTransformers {{
  std::string name;
  double length, along;  // along: its product with a direction
  std::array<double, 4> elements;
}};

struct ModelOfTransformers {{
  std::string config;
  double loss;
  std::vector<double> logits;  // of each fifth token
  std::vector<GradientOfTransformers> gradients;
  std::vector<double> losses;  // before each of {STEPS} steps of AdamW, and behind the last
}};

// clang-format off
inline const std::vector<ModelOfTransformers> kModelsOfTransformers{{
{cases}}};
// clang-format on

}}  // namespace tandem::testing
"""
    pathlib.Path(__file__).with_name("models_of_transformers.h").write_text(text)


def numbers_of(case):
    """Of a model in the header: all but those of its configuration and in names."""
    _, _, case = case.partition(')",')
    return [float(one) for one in re.findall(r"(?<![\w.])-?\d+\.?\d*(?:e-?\d+)?", re.sub('"[^"]*"', "", case))]


def check():
    header = pathlib.Path(__file__).with_name("models_of_transformers.h").read_text()
    written = header.split('R"(')[1:]
    failed = 0
    for (make, config, parts), there in zip(models(), written):
        there = numbers_of(there.partition("// clang-format on")[0])
        worst = {}
        for factor in (1.0, 1.001):  # the second is the control: other weights
            here = numbers_of(measured(make, config, parts, factor))
            assert len(here) == len(there) > 100, (len(here), len(there))
            worst[factor] = max(abs(a - b) / max(abs(b), 1e-2) for a, b in zip(here, there))
        print(f"{make.__name__}: {len(there)} numbers, {worst[1.0]:.1e} apart at most")
        failed += not worst[1.0] < 1e-5 < worst[1.001]
    sys.exit(failed > 0)


if __name__ == "__main__":
    check() if sys.argv[1:] == ["--check"] else main()
