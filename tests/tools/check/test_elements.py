"""Which judgement kind looks at an argument's elements: the one that it names, else its dtype's."""

from __future__ import annotations

import numpy as np
import pytest

from astra_chat.tools.check.floats import as_bytes
from astra_chat.tools.check.kinds import NOTES, comparison
from astra_chat.tools.task.contract import Judged, JudgedBy
from astra_chat.tools.task.folder import Arg, Tolerance
from astra_chat.tools.types import Case, DTypeName
from tests.contracts.planted import contract

CLOSE = {"float16": Tolerance(rtol=1e-3, atol=1e-3)}
TASK = contract("per_token_quant_fp8").model_copy(update={"tolerance": CLOSE})
CASE = Case(dims={"tokens": 1, "hidden": 8}, dtype="bfloat16")


def good(arg: Arg, got: float, expected: float, kind: type = np.float64) -> bool:
    content = as_bytes(np.array([got], kind), arg.dtype_of(CASE))
    return bool(comparison(TASK, arg, CASE)(content, np.array([expected], kind)).good[0])


def argument(dtype: DTypeName, by: JudgedBy | None = None, rtol: float | None = None) -> Arg:
    return Arg(
        name="out",
        dtype=dtype,
        shape=("tokens",),
        access="write",
        judged=Judged(by=by, scale="output_s") if by else None,
        tolerance=None if rtol is None else Tolerance(rtol=rtol, atol=0),
    )


def test_floats_are_close_by_the_task_or_by_their_own_tolerance() -> None:
    assert good(argument("float16"), 1.0, 1.0009) and not good(argument("float16"), 1.0, 1.01)
    assert good(argument("float16", rtol=0.1), 1.0, 1.01)
    assert not good(argument("float32", rtol=0.0), 1.0, 1.0 + 1e-9)


@pytest.mark.parametrize("dtype", ["int8", "int32", "int64", "bool"])
def test_integers_are_exact(dtype: DTypeName) -> None:
    assert good(argument(dtype), 1, 1, np.int64) and not good(argument(dtype), 0, 1, np.int64)


def test_a_byte_that_is_no_bool_is_wrong() -> None:
    compare = comparison(TASK, argument("bool"), CASE)
    found = compare(np.array([0, 1, 2], np.uint8), np.array([0, 1, 1]))
    assert found.good.tolist() == [True, True, False]


def test_floats_may_be_copies_and_integers_codes() -> None:
    assert not good(argument("float16", "exact"), 1.0, 1.0009)
    assert good(argument("int8", "quantized"), 4, 2.6) and not good(
        argument("int8", "quantized"), 5, 2.6
    )


def test_every_kind_has_a_note() -> None:
    assert set(NOTES) == {"close", "exact", "quantized"}
    assert "{allowed" in NOTES["close"]
