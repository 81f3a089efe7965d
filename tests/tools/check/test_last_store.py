"""Which statement stored a wrong result: the last one, of the kernel as its author wrote it."""

from __future__ import annotations

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.calls import check, with_last_store
from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.requests import Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case, Device, Wrong

TASK = find_task("silu_and_mul")
CASE = Case(dims={"tokens": 3, "d": 16}, dtype="float16", seed=5)


def judged(source: str, device: Device, oracle: Oracle) -> Wrong:
    built = build(TASK, source, device)
    assert isinstance(built, Build), built
    runner = Runner(TASK, device, seed=Seed("7"))
    wrong = check(runner, built, [Call(t) for t in oracle.oracle_cases([CASE], runner.stop)])
    assert isinstance(wrong, Wrong), wrong
    return with_last_store(runner, built, oracle, wrong)


def test_the_last_of_several_stores_is_named(device: Device, oracle: Oracle) -> None:
    """The vector loop is right; a later statement spoils one element of row 2."""
    spoils = "if (token == 2 && thread == 0) row[9] = from_float<T>(0.25f);"
    head, loop, tail = TASK.baseline.partition("  const int rest = d % (threads * kSize);")
    assert loop
    source = f"{head}  __syncthreads();\n  {spoils}\n{loop}{tail}"
    wrong = judged(source, device, oracle)
    line = source.splitlines().index(f"  {spoils}") + 1
    assert (wrong.argument, wrong.index) == ("out", (2, 9))
    place = f"this element was last written at kernel.cu:{line}, block (2, 0, 0), thread (0, 0, 0)"
    assert wrong.note.endswith(place)


def test_what_nothing_wrote_has_no_statement(device: Device, oracle: Oracle) -> None:
    source = TASK.baseline.replace("store(row + index * kSize, result);", "")
    source = source.replace("row[start + index] =", "const T unused =")
    wrong = judged(source, device, oracle)
    assert wrong.reason == "unwritten" and "last written" not in wrong.note
