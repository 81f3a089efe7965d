"""The forward pass of Qwen 3 beside one that is written out number by number in float64: run by
test_inside.py."""

import math

import torch
from astra_step import fp32

fp32.REQUESTS = 2
torch.manual_seed(3)
heads, kv, size, wide, vocab, layers = 4, 2, 8, 32, 19, 2
config = dict(
    num_hidden_layers=layers,
    num_attention_heads=heads,
    num_key_value_heads=kv,
    head_dim=size,
    rms_norm_eps=1e-6,
    num_experts=4,
    num_experts_per_tok=2,
    norm_topk_prob=True,
)


def drawn(*shape):
    return torch.randn(*shape, dtype=torch.bfloat16) * (shape[-1] ** -0.5 if len(shape) > 1 else 1)


weights = {
    "model.embed_tokens.weight": drawn(vocab, wide),
    "model.norm.weight": drawn(wide),
    "lm_head.weight": drawn(vocab, wide),
}
for n in range(layers):
    p = f"model.layers.{n}."
    weights |= {
        p + "input_layernorm.weight": drawn(wide),
        p + "post_attention_layernorm.weight": drawn(wide),
        p + "self_attn.qkv_proj.weight": drawn((heads + 2 * kv) * size, wide),
        p + "self_attn.q_norm.weight": drawn(size),
        p + "self_attn.k_norm.weight": drawn(size),
        p + "self_attn.o_proj.weight": drawn(wide, heads * size),
        p + "mlp.gate.weight": drawn(4, wide),
        p + "mlp.experts.w13_weight": drawn(4, 2 * 16, wide),
        p + "mlp.experts.w2_weight": drawn(4, wide, 16),
    }
angles = torch.outer(torch.arange(9.0), 100.0 ** -(torch.arange(0, size, 2) / size))
rotation = torch.cat([angles.cos(), angles.sin()], -1)
tokens = torch.randint(0, vocab, (3, 7))
found = fp32.logits(weights, rotation, config, tokens, [4, 6])


def norm(row, weight):
    return [
        x / math.sqrt(sum(y * y for y in row) / len(row) + 1e-6) * w
        for x, w in zip(row, weight, strict=True)
    ]


def times(matrix, row):
    return [sum(a * b for a, b in zip(line, row, strict=True)) for line in matrix]


def turned(head, position):
    half = size // 2
    c, s = angles[position].cos().tolist(), angles[position].sin().tolist()
    return [head[i] * c[i] - head[i + half] * s[i] for i in range(half)] + [
        head[i + half] * c[i] + head[i] * s[i] for i in range(half)
    ]


def mlp(gate_up, down, row):
    both = times(gate_up, row)
    return times(
        down, [g / (1 + math.exp(-g)) * u for g, u in zip(both[:16], both[16:], strict=True)]
    )


W = {name: one.double().tolist() for name, one in weights.items()}
for request in range(3):
    rows = [W["model.embed_tokens.weight"][t] for t in tokens[request].tolist()]
    for n in range(layers):
        p = f"model.layers.{n}."
        qkv = [
            times(W[p + "self_attn.qkv_proj.weight"], norm(r, W[p + "input_layernorm.weight"]))
            for r in rows
        ]
        cut = [[row[i * size : (i + 1) * size] for i in range(heads + 2 * kv)] for row in qkv]
        q = [
            [turned(norm(h, W[p + "self_attn.q_norm.weight"]), t) for h in row[:heads]]
            for t, row in enumerate(cut)
        ]
        k = [
            [turned(norm(h, W[p + "self_attn.k_norm.weight"]), t) for h in row[heads : heads + kv]]
            for t, row in enumerate(cut)
        ]
        v = [row[heads + kv :] for row in cut]
        for t in range(len(rows)):
            mixed = []
            for h in range(heads):
                g = h // (heads // kv)
                e = [
                    math.exp(
                        sum(a * b for a, b in zip(q[t][h], k[s][g], strict=True)) / math.sqrt(size)
                    )
                    for s in range(t + 1)
                ]
                mixed += [
                    sum(e[s] * v[s][g][i] for s in range(t + 1)) / sum(e) for i in range(size)
                ]
            rows[t] = [
                a + b
                for a, b in zip(
                    rows[t], times(W[p + "self_attn.o_proj.weight"], mixed), strict=True
                )
            ]
        for t in range(len(rows)):
            normed = norm(rows[t], W[p + "post_attention_layernorm.weight"])
            e = [math.exp(x) for x in times(W[p + "mlp.gate.weight"], normed)]
            best = sorted(range(4), key=lambda i: -e[i])[:2]
            for i in best:
                out = mlp(
                    W[p + "mlp.experts.w13_weight"][i], W[p + "mlp.experts.w2_weight"][i], normed
                )
                rows[t] = [
                    a + b * e[i] / sum(e[j] for j in best)
                    for a, b in zip(rows[t], out, strict=True)
                ]
    for place, position in enumerate([4, 6]):
        wanted = times(W["lm_head.weight"], norm(rows[position], W["model.norm.weight"]))
        apart = max(abs(a - b) for a, b in zip(wanted, found[place][request].tolist(), strict=True))
        assert apart < 1e-4, (request, position, apart)
print("equal")
