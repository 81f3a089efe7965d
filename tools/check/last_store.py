"""Which statement of a candidate stored a wrong result: help for its author, on which no verdict
rests.

The call is run once more on the virtual GPU, which knows each instruction's source line and watches
the bytes of the element.
"""

from __future__ import annotations

from dataclasses import replace

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.protocol import WatchedBytes
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.types import ITEM_BYTES, Case, Wrong

MOST_BYTES = 2**20
"""Most bytes that a case may move: the NumPy engine then runs all of its blocks within seconds."""
OF_ELEMENTS = frozenset(("value", "nan_pattern", "input_changed"))
"""Reasons whose index is that of an element which a kernel has stored."""


def with_last_store(runner: Runner, candidate: Build, oracle: Oracle, wrong: Wrong) -> Wrong:
    """`wrong` with the place of the last store to its element in the note; as it is where that
    cannot be said."""
    task = runner.task
    if wrong.reason not in OF_ELEMENTS or task.least_bytes(wrong.case) > MOST_BYTES:
        return wrong
    numpy = runner.on_virtual_gpu() if runner.device.kind == "cuda" else runner
    numpy = replace(numpy, engine="numpy")
    built = runner.virtual_build(candidate)
    if not isinstance(built, Build):
        return wrong
    (oracle_case,) = oracle.oracle_cases([wrong.case], numpy.stop)
    arg = next(arg for arg in task.args if arg.name == wrong.argument)
    call = Call(oracle_case, watched=_bytes_of(arg, wrong.case, wrong.index))
    run = next(numpy.run_calls(built, [call], "check"), None)
    if not isinstance(run, CaseRun) or not run.report.stored_by:
        return wrong
    note = f"this element was last written at {run.report.stored_by}"
    return wrong.model_copy(update={"note": "; ".join(filter(None, [wrong.note, note]))})


def _bytes_of(arg: Arg, case: Case, index: tuple[int, ...]) -> WatchedBytes:
    item = ITEM_BYTES[arg.dtype_of(case)]
    at = sum(i * stride for i, stride in zip(index, arg.strides_of(case), strict=True))
    return WatchedBytes(argument=arg.name, start=at * item, size=item)
