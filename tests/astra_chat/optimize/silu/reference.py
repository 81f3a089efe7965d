"""The float64 reference of silu_and_mul."""

import torch


def make_inputs(case, generator):
    return {"x": case.draw(generator, (case.dims["tokens"], 2 * case.dims["d"]))}


def reference(inputs):
    gate, up = inputs["x"].double().chunk(2, -1)
    return {"out": torch.nn.functional.silu(gate) * up}
