"""The comparison of an argument's elements with the oracle's, by the argument's judgement kind."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

from astra_chat.tools.check.floats import Array, as_float, as_int
from astra_chat.tools.check.kinds.close import compare_close
from astra_chat.tools.check.kinds.comparison import Comparison
from astra_chat.tools.check.kinds.exact import compare_exact
from astra_chat.tools.check.kinds.quantized import compare_codes
from astra_chat.tools.task.folder import Arg, Task
from astra_chat.tools.types import Case, DTypeName, is_float

Compare = Callable[[Array, Array], Comparison]
"""Comparison of the bytes of some elements with what is expected of them."""

NOTES = {
    "close": "allowed error there: {allowed:.3g}",
    "exact": "it must be exact",
    "quantized": "a code may be one step beside the nearest one",
}


def comparison(task: Task, arg: Arg, case: Case) -> Compare:
    """Returns the comparison for an argument that is judged by its elements. Where outputs are in
    canonical form, only such elements are left whose value is specified."""
    dtype = arg.dtype_of(case)
    match arg.judged_by(case):
        case "exact":
            return partial(_exact, dtype)
        case "quantized":
            return lambda content, codes: compare_codes(as_float(content, dtype), codes, dtype)
    tolerance = task.tolerance_of(arg, case)
    return lambda content, expected: compare_close(
        as_float(content, dtype), expected, tolerance, dtype
    )


def _exact(dtype: DTypeName, content: Array, expected: Array) -> Comparison:
    number = as_float if is_float(dtype) else as_int
    return compare_exact(number(content, dtype), expected)
