"""Dtypes come from dispatches first, then checks, pointers and kernels."""

from __future__ import annotations

import pytest

from astra_chat.tools.new.draft import USUAL, Tensor
from astra_chat.tools.new.host_function import Facts
from astra_chat.tools.new.like_named import Alike
from astra_chat.tools.new.stated import Stated
from astra_chat.tools.new.type_variables import dtype_of, letters_of, variables_among

HALVES = ("float16", "bfloat16")
X = Tensor("x", "read")


def test_letters() -> None:
    found = letters_of(
        {
            "scalar_t": HALVES,
            "quant_t": ("float8_e4m3fn", "int8"),
            "index_t": ("int32", "int64"),
            "other_t": HALVES,
        }
    )
    assert found == {"scalar_t": "T", "quant_t": "Q", "index_t": "I", "other_t": "U"}


@pytest.mark.parametrize(
    ("facts", "said", "alike", "dtype"),
    [
        (Facts(switched={"x": "scalar_t"}, letters={"scalar_t": "T"}), Stated(), Alike(), "T"),
        (Facts(), Stated(dtypes={"x": ("int64",)}), Alike(), "int64"),
        (Facts(elements={"x": ["uint8"]}), Stated(), Alike(), "uint8"),
        (Facts(letters={"fp8_t": "Q"}, words={"x": ["fp8_t"]}), Stated(), Alike(), "Q"),
        (Facts(), Stated(), Alike(elements=["int64_t", "uint16_t"]), "int64"),
        (Facts(), Stated(), Alike(), "T"),
    ],
)
def test_dtypes(facts: Facts, said: Stated, alike: Alike, dtype: str) -> None:
    assert dtype_of(X, facts, said, alike) == dtype


def test_a_variable_of_one_dtype_is_that_dtype() -> None:
    facts = Facts(variables={"scalar_t": HALVES, "fp8_t": ("float8_e4m3fn",)})  # type: ignore[dict-item]
    facts.letters = letters_of(facts.variables)
    tensors, variables, known = variables_among(
        [X, Tensor("y", "write", "Q"), Tensor("s", "write", "float32")], facts, Stated()
    )
    assert [t.dtype for t in tensors] == ["T", "float8_e4m3fn", "float32"]
    assert variables == {"T": HALVES} and known


def test_branches_and_checks_tell_the_dtypes_of_t() -> None:
    facts = Facts(branches=("float16", "bfloat16"))
    tensors, variables, known = variables_among(
        [X, Tensor("y", "write", "float16")], facts, Stated()
    )
    assert [t.dtype for t in tensors] == ["T", "T"] and variables == {"T": HALVES} and known
    said = Stated(dtypes={"x": ("float16", "bfloat16")})
    assert variables_among([X], Facts(), said)[1] == {"T": HALVES}
    assert variables_among([X], Facts(), Stated())[1:] == ({"T": USUAL}, False)
