"""Matrix products and fragments that are tried: registers that fit, results that are right."""

from __future__ import annotations

import numpy as np
import pytest

from lab.virtual_gpu.numerics.inputs import inputs
from lab.virtual_gpu.numerics.matrices import matrices, mma_shape
from lab.virtual_gpu.numerics.program import answers


@pytest.mark.parametrize(
    ("size", "total", "form", "shape"),
    [
        ("m16n8k16", "f32", "f16", "rrrr:rrrr|rr|rrrr"),
        ("m16n8k8", "f16", "f16", "rr:rr|r|rr"),
        ("m16n8k4", "f32", "tf32", "rrrr:rr|r|rrrr"),
        ("m16n8k32", "s32", "u8", "rrrr:rrrr|rr|rrrr"),
    ],
)
def test_registers_of_a_product(size: str, total: str, form: str, shape: str) -> None:
    assert mma_shape(size, total, form) == shape


def test_a_fragment_that_is_loaded_and_stored_is_the_matrix() -> None:
    by_name = {i.name: i for i in matrices()}
    load = by_name["wmma.load.c.sync.aligned.row.m16n16k16.shared.f32"]
    store = by_name["wmma.store.d.sync.aligned.col.m16n16k16.shared.f32"]
    found = answers([load, store], sampled=True)
    matrix = np.stack(inputs(load), axis=1)[:32].reshape(16, 16)
    held = found[load.name][:, :32].T
    assert held[5, 3] == matrix[9, 3] and sorted(held.ravel()) == sorted(matrix.ravel())
    given = np.stack(inputs(store), axis=1)[:32]
    back = found[store.name][:, :32].T.reshape(16, 16)
    assert back[3, 9] == given[5, 3]
