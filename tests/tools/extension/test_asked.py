"""Extensions in two walled processes, on the CPU: results are compared, kept ones are found."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from astra_chat.tools.extension.build import (
    SYMBOLS,
    ExtensionBuild,
    build_extension,
    library_findings,
)
from astra_chat.tools.extension.questions import questioned
from astra_chat.tools.extension.turns import TimedTurns
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.sandbox.isolation import ENOUGH, isolation
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import BuildFailed, Crashed, Refused, Wrong
from tests.tools.extension.samples import CHEATS, HOST, module_task

needs_walls = pytest.mark.skipif(isolation() not in ENOUGH, reason="nothing isolates here")
HOW = {"device": "cpu", "seed": "7", "compilations": 0, "mode": "default"}
EXPECTED = {
    "cached": (Wrong, "values differ"),
    "in_place": (Crashed, "forward changes its arguments"),
    "other_shape": (Crashed, "forward returns float32[144]"),
    "half_eye": (Wrong, "values differ"),
    "raises": (Crashed, "not 3"),
}


@pytest.fixture(scope="module")
def asked(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Task, Oracle]]:
    task = load_task(module_task(tmp_path_factory.mktemp("module")))
    oracle = Oracle(task)
    yield task, oracle
    oracle.close()


def built_on_host(task: Task, source: str) -> ExtensionBuild:
    built = build_extension(task, source, None, Stop())
    assert isinstance(built, ExtensionBuild), built
    return built


@needs_walls
@pytest.mark.second_tier
def test_an_honest_extension_is_asked_and_timed(asked: tuple[Task, Oracle]) -> None:
    task, oracle = asked
    built = built_on_host(task, HOST)
    assert library_findings(built, HOST) == () and built.library.is_file()
    cases = oracle.oracle_cases(task.check, Stop())
    with questioned(task, built.library, cases, cases[:1], HOW, Stop()) as found:
        assert found.fault(task) is None, found.found
        worst = [found.wrong(task, number) for number in range(len(cases) + 1)]
    assert all(isinstance(one, float) and one <= 1 for one in worst), worst
    assert found.found["grades"] == dict.fromkeys(("set", "values", "weights", "shapes"), "right")
    rows = TimedTurns(found.found["turns"][0]).rows(cases[0].case, 0)
    assert [bool(row.times) for row in rows] == [True, False, False, False]


@needs_walls
@pytest.mark.second_tier
@pytest.mark.sampled(1)
@pytest.mark.parametrize("name", EXPECTED)
def test_a_faulty_extension_is_found(name: str, asked: tuple[Task, Oracle]) -> None:
    task, oracle = asked
    built = built_on_host(task, CHEATS[name])
    cases = oracle.oracle_cases(task.check, Stop())
    kind, words = EXPECTED[name]
    with questioned(task, built.library, cases, (), HOW, Stop()) as found:
        fault = found.fault(task)
        verdicts = [
            found.wrong(task, n) for n in range(len(found.found["cases"]) if not fault else 0)
        ]
    outcomes = [fault, *verdicts]
    if kind is Wrong:
        assert isinstance(fault, Refused) or any(isinstance(one, Wrong) for one in outcomes), (
            outcomes
        )
    else:
        assert isinstance(fault, kind) and words in fault.message, fault


@pytest.mark.second_tier
def test_what_does_not_compile_goes_back_as_text(asked: tuple[Task, Oracle]) -> None:
    source = HOST.replace("auto out = torch::empty_like(h);", "auto out = torch::emty(h);")
    found = build_extension(asked[0], source, None, Stop())
    assert isinstance(found, BuildFailed) and "emty" in found.log and "line " in found.log


def test_what_a_library_asks_of_others_is_read(tmp_path: Path) -> None:
    """Operators by their symbols, at the line that names them, whatever macros hide."""
    symbols = [
        "                 U at::_ops::addmm::call(at::Tensor const&)",
        "                 U at::_ops::linalg_svd::call(at::Tensor const&)",
        "                 U c10::cuda::CUDACachingAllocator::allocator",
        "                 U cudaStreamCreateWithFlags",
        "                 U cudaLaunchKernel",
        "                 U dlopen@GLIBC_2.34",
        "                 U memcpy@GLIBC_2.14",
        "                 w __cxa_finalize@GLIBC_2.2.5",
    ]
    (tmp_path / SYMBOLS).write_text("\n".join(symbols))
    source = "\n\n  auto u = x.linalg_svd();\n  dlopen(0, 0);\n"
    found = library_findings(ExtensionBuild(tmp_path, (), False), source)
    assert {(one.line, one.what.split(":")[0]) for one in found} == {
        (3, "linalg_svd"),
        (1, "c10"),
        (1, "cudaStreamCreateWithFlags"),
        (4, "dlopen"),
    }


def test_times_that_cannot_be_are_seen() -> None:
    us = {"candidate graph": [10.0] * 3, "candidate": [20.0] * 3, "eager graph": [30.0] * 3}
    turns = TimedTurns({"us": us, "burst_us": 12.0, "not_run": {}, "failed": ""})
    assert turns.candidate_us == 10 and not turns.implausible(5.0)
    assert "physical limit" in turns.implausible(11.0)
    late = TimedTurns({**turns.found, "burst_us": 50.0})
    assert "50.0 us each according to the judge's clock" in late.implausible(5.0)
