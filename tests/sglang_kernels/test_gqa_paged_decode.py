"""The task gqa_paged_decode: its script is what its files say, and its reference is attention as
PyTorch computes it."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

from astra_chat.models.script import load_script
from astra_chat.tools.task.folder import find_task
from tests.sglang_kernels import shipped

TASK = find_task("gqa_paged_decode")
SCRIPT = load_script(TASK)
KERNELS = shipped.kernels(TASK)


@pytest.mark.parametrize("name", shipped.sound(TASK, SCRIPT))
def test_kernel_exports_the_prototype(name: str, tmp_path: Path) -> None:
    shipped.require_prototype(TASK, KERNELS[name], tmp_path)


def test_the_script_holds_to_its_form() -> None:
    shipped.require_anchors(TASK, SCRIPT)
    shipped.require_new_cases(TASK, SCRIPT)


def test_the_reference_is_pytorchs_attention_over_the_pages() -> None:
    generator = torch.Generator().manual_seed(4)
    k, v, q = (torch.randn(6, 4, 2, 16, generator=generator) for _ in range(3))
    q = q.flatten()[: 2 * 8 * 16].view(2, 8, 16)
    table, lengths = torch.tensor([[4, 1, 3], [0, 5, 2]]), torch.tensor([9, 1])
    inputs = {"q": q, "k_cache": k, "v_cache": v, "page_table": table, "lengths": lengths}
    found = shipped.reference(TASK).reference({**inputs, "sm_scale": 0.25})["out"]
    for row, length in enumerate(lengths.tolist()):
        keys, values = (
            torch.cat([cache[page] for page in table[row]])[:length].transpose(0, 1).double()
            for cache in (k, v)
        )
        wanted = torch.nn.functional.scaled_dot_product_attention(
            q[row, :, None].double(), keys, values, enable_gqa=True
        )
        torch.testing.assert_close(found[row], wanted[:, 0])


@pytest.mark.parametrize("midpoint", [128.5, 133.5, 160.5, 250.5])
def test_the_band_allows_either_sum_of_rounded_probabilities(midpoint: float) -> None:
    """A kernel may divide by the sum of its probabilities before or after their rounding. The two
    differ most where one value outweighs the others, and its probability is rounded up and theirs
    down."""
    wanted = torch.tensor([1 - 1e-4, 1 + 1e-4, 1 - 1e-4, 256 / midpoint, 1 - 1e-4])
    scores = (wanted.double() * midpoint / 256).log()
    k, v = torch.zeros(5, 1, 1, 16), torch.full((5, 1, 1, 16), 1e-6)
    k[:, 0, 0, 0], v[1] = scores, 0.11816
    table, lengths = torch.arange(5).view(1, 5), torch.tensor([5])
    inputs = {"k_cache": k, "v_cache": v, "page_table": table, "lengths": lengths, "sm_scale": 1.0}
    task, given = shipped.reference(TASK), {**inputs, "q": torch.ones(1, 1, 16)}
    width = task.terms(given)["out"][0, 0] * TASK.band_factor(TASK.check[0])
    p = k[:, 0, 0, 0].double().exp()
    rounded = p.bfloat16().double()
    for total in (p.sum(), rounded.sum()):
        out = rounded @ v[:, 0, 0].double() / total
        assert ((out - task.reference(given)["out"][0, 0]).abs() <= width).all()


def test_served_caches_are_timed() -> None:
    """Groups, pages and lengths of the models, one request most."""
    assert {c.dims["page_size"] for c, _ in TASK.bench} == {1, 16, 64}
    assert {c.dims["group"] for c, _ in TASK.bench} == {4, 8}
    longest = {c.dims["max_pages"] * c.dims["page_size"] for c, _ in TASK.bench}
    assert max(longest) == 32768
    assert {c.dims["requests"] for c, _ in TASK.bench} == {1, 8, 16, 64}
