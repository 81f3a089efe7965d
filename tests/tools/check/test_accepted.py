"""Outputs of which many are legal: accept and canonical of a task's reference.py, in the oracle
process; what they cannot read is not accepted, and ends nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.check.compare import compare_outputs
from astra_chat.tools.check.error_norms import BaselineErrors
from astra_chat.tools.check.floats import Array
from astra_chat.tools.check.trivial_outputs import trials, undetected
from astra_chat.tools.descriptions import describe
from astra_chat.tools.run import oracle as module
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Wrong

CONTRACT = """
schema = 2
name = "places"
summary = "places of the negative numbers, then of the others"
entry = "places"
dtypes = ["float32"]
flops = "n"
flags = []
args = [
    { name = "x", dtype = "T", shape = ["n"], access = "read" },
    { name = "places", dtype = "int32", shape = ["n"], access = "write"JUDGED },
    { name = "count", dtype = "int64", shape = ["1"], access = "write" },
]
check = [{ n = 40, dtype = "float32" }, { n = 9, dtype = "float32" }]
bench = [{ n = 40, dtype = "float32" }]
demo = [{ n = 40, dtype = "float32" }]
[dims.n]
min = 1
max = 1000
[tolerance]
[provenance]
baseline = "none"
"""
REFERENCE = """
import time
import torch


def make_inputs(case, generator):
    return {"x": case.draw(generator, (case.dims["n"],))}


def reference(inputs):
    negative = inputs["x"] < 0
    places = torch.cat([negative.nonzero(), (~negative).nonzero()]).reshape(-1)
    return {"places": places, "count": negative.sum().reshape(1)}
"""
ACCEPT = """

def accept(inputs, outputs):
    places = outputs["places"].long()
    if places[0] == 1000:
        time.sleep(60)
    if places[0] == 1001:
        raise RuntimeError("cannot be read")
    if (places.sort().values != torch.arange(len(places))).any():
        return "no permutation"
    negative = inputs["x"][places] < 0
    wrong = (negative != (torch.arange(len(places)) < negative.sum())).nonzero()
    if len(wrong):
        return "a number of the other sign belongs there", ("places", int(wrong[0]))
"""
CANONICAL = """

def canonical(outputs, inputs):
    count = int((inputs["x"] < 0).sum())
    places = outputs["places"].clone()
    places[:count] = places[:count].sort().values
    places[count:] = places[count:].sort().values
    return {**outputs, "places": places}
"""


def written(folder: Path, judged: str, functions: str) -> Task:
    (folder / "task.toml").write_text(CONTRACT.replace("JUDGED", judged))
    (folder / "reference.py").write_text(REFERENCE + functions)
    (folder / "baseline.cu").write_text("// none\n")
    return load_task(folder)


class Scene:
    """A case and its oracle; outputs are judged as a kernel's are."""

    def __init__(self, task: Task, oracle: Oracle) -> None:
        self.task, self.oracle = task, oracle
        self.cases = oracle.oracle_cases(task.check, Stop())
        self.case: OracleCase = self.cases[0]
        self.right = self.expected("places").astype(np.int32)
        self.count = int(self.expected("count")[0])

    def expected(self, name: str) -> Array:
        return np.asarray(self.case.expected(next(a for a in self.task.args if a.name == name)))

    def judge(self, places: Array, count: int | None = None, sampled: str = "") -> float | Wrong:
        report = CaseReport(sampled=sampled)
        run = CaseRun(self.case, Path("no file"), report, pattern=0x7FA5)
        number = np.array([self.count if count is None else count])
        outputs: Mapping[str, Array] = {
            "places": places.astype(np.int32).view(np.uint8),
            "count": number.view(np.uint8),
        }
        return compare_outputs(self.task, run, outputs)

    def wrong(self, places: Array, count: int | None = None) -> Wrong:
        verdict = self.judge(places, count)
        assert isinstance(verdict, Wrong)
        return verdict

    def shuffled(self) -> Array:
        """Another legal answer."""
        places, count = self.right.copy(), self.count
        assert 2 < count < len(places) - 2
        places[:count], places[count:] = places[:count][::-1], np.roll(places[count:], 1)
        return places


def scene(task: Task) -> Iterator[Scene]:
    oracle = Oracle(task)
    yield Scene(task, oracle)
    oracle.close()


@pytest.fixture(scope="module")
def accepting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    folder = tmp_path_factory.mktemp("accepting")
    yield from scene(written(folder, ', judged = { by = "accept" }', ACCEPT))


@pytest.fixture(scope="module")
def ordering(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    yield from scene(written(tmp_path_factory.mktemp("ordering"), "", CANONICAL))


@pytest.mark.second_tier
def test_every_legal_answer_is_accepted(accepting: Scene) -> None:
    assert accepting.judge(accepting.right) == 0.0
    assert accepting.judge(accepting.shuffled()) == 0.0


def test_words_and_place_reach_the_reader(accepting: Scene) -> None:
    places = accepting.right.copy()
    places[[0, -1]] = places[[-1, 0]]
    wrong = accepting.wrong(places)
    assert (wrong.reason, wrong.argument, wrong.index) == ("not_accepted", "places", (0,))
    assert wrong.got == places[0]
    said = describe(wrong)
    assert "rejects it: places[0] is" in said and "the other sign belongs there" in said
    assert "expected" not in said
    assert accepting.wrong(np.zeros(40)).index == ()
    assert "rejects it: places; no permutation" in describe(accepting.wrong(np.zeros(40)))


def test_the_other_arguments_are_judged_by_their_own_kinds(accepting: Scene) -> None:
    wrong = accepting.wrong(accepting.shuffled(), accepting.count + 1)
    assert (wrong.reason, wrong.argument, wrong.got) == ("value", "count", accepting.count + 1)
    assert wrong.note == "it must be exact"


@pytest.mark.second_tier
def test_what_accept_cannot_read_is_wrong_and_ends_nothing(
    accepting: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "RuntimeError: cannot be read" in accepting.wrong(np.full(40, 1001)).note
    monkeypatch.setattr(module, "OUTPUTS_TIMEOUT_S", 0.5)
    assert "took more than" in accepting.wrong(np.full(40, 1000)).note
    monkeypatch.undo()
    assert accepting.judge(accepting.shuffled()) == 0.0


def test_a_sample_of_blocks_is_not_judged_as_a_whole(accepting: Scene) -> None:
    sample = "1 of 3 blocks"
    assert accepting.judge(np.zeros(40), sampled=sample) == 0.0
    assert isinstance(accepting.judge(np.zeros(40), accepting.count + 1, sample), Wrong)


def test_of_a_sample_nothing_has_a_canonical_form(ordering: Scene) -> None:
    assert ordering.judge(np.zeros(40), sampled="1 of 3 blocks") == 0.0


def test_outputs_in_canonical_form_are_compared_exactly(ordering: Scene) -> None:
    assert ordering.case.has_canonical
    assert ordering.judge(ordering.right) == ordering.judge(ordering.shuffled()) == 0.0
    places = ordering.shuffled()
    places[0] = places[1]
    wrong = ordering.wrong(places)
    assert (wrong.reason, wrong.argument) == ("value", "places")
    assert "in canonical form" in wrong.note


@pytest.mark.parametrize("scene", ["accepting", "ordering"])
def test_trivial_outputs_fail(scene: str, request: pytest.FixtureRequest) -> None:
    made: Scene = request.getfixturevalue(scene)
    found = trials(made.task, made.cases, BaselineErrors(made.task))
    assert {t.output for t in found} == {
        "all zeros",
        "the most frequent value everywhere",
        "the element's own index, 0, 1, 2, ...",
    }
    assert undetected(found) == []
    assert not any(t.passed for t in found if t.argument == "places")
