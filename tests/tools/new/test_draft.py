"""Dtypes, likely shapes and wrapped heads of a draft."""

from __future__ import annotations

import pytest

from astra_chat.tools.errors import BadInput
from astra_chat.tools.new.draft import COLUMNS, Tensor, dtypes_of, head
from astra_chat.tools.types import DTypeName
from tests.tools.new.samples import draft


@pytest.mark.parametrize(
    ("given", "dtypes", "known"),
    [
        (["float32"], ("float32",), True),
        (["float32", "bfloat16"], ("bfloat16",), True),
        (["float32", None], ("float16", "bfloat16", "float32"), False),
    ],
)
def test_dtypes(given: list[DTypeName | None], dtypes: tuple[str, ...], known: bool) -> None:
    assert dtypes_of([Tensor("x", False, dtype) for dtype in given]) == (dtypes, known)


def test_two_half_dtypes_are_no_contract() -> None:
    with pytest.raises(BadInput, match="float16 and bfloat16"):
        dtypes_of([Tensor("x", False, "float16"), Tensor("y", True, "bfloat16")])


def test_a_weight_has_one_element_a_column() -> None:
    found = draft("rms_norm_torch.cu")
    by_name = {t.name: found.shape_of(t) for t in found.tensors}
    assert by_name["weight"] == ("hidden",) and by_name["out"] == ("rows", "hidden")


def test_heads_are_wrapped() -> None:
    parameters = [f"const void* argument_{i}" for i in range(9)]
    lines = head('extern "C" cudaError_t f', parameters, " {")
    assert len(lines) > 1 and all(len(line) <= COLUMNS for line in lines)
    assert " ".join(" ".join(lines).split()).replace("( ", "(") == (
        f'extern "C" cudaError_t f({", ".join(parameters)}) {{'
    )
