"""How far results of a module's kernels may be off."""

from __future__ import annotations

import numpy as np
import pytest

from astra_chat.tools.runners.module_values import in_order_error


@pytest.mark.parametrize("terms", [33, 2048, 8192])
def test_plain_sums_are_within_it_and_truncated_products_are_not(terms: int) -> None:
    """float32 sums of products, one by one, beside those of operands cut to 11 bits, as TF32's."""
    draws = np.random.default_rng(terms)
    a, b = (draws.standard_normal((terms, 4_000)).astype(np.float32) for _ in range(2))
    exact = (a.astype(np.float64) * b).sum(axis=0)
    in_order = np.zeros(a.shape[1], np.float32)
    for row, other in zip(a, b, strict=True):
        in_order += row * other
    allowed = in_order_error(terms, float(np.sqrt(np.square(exact).mean())))
    assert np.abs(in_order - exact).max() < allowed
    cut = [(v.view(np.uint32) & np.uint32(0xFFFFE000)).view(np.float32) for v in (a, b)]
    rough = (cut[0].astype(np.float64) * cut[1]).sum(axis=0)
    assert np.abs(rough - exact).max() > 5 * allowed
