"""All sets of timed launches are verified, in every mode: on a real GPU."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.oracle import Oracle
from astra_chat.tools.run.protocol import CallRequest, CaseReport, TimedMode
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import Case

pytestmark = pytest.mark.gpu
TASK = find_task("silu_and_mul")
CASE = Case(dims={"tokens": 64, "d": 2048}, dtype="float16")
PATTERN = 0x7FA5
MODES: tuple[TimedMode, ...] = ("cold", "warm", "events")


class Timed:
    """Sets of timed launches; what baseline and candidate write is computed by torch."""

    def __init__(self, inputs: Path, after: Path) -> None:
        from astra_chat.tools.runners.cuda_buffers import BufferSets

        self.call = CallRequest(case=CASE, inputs=inputs, after=after, seed=Seed("a"))
        self.draws = random.Random(7)
        self.sets = BufferSets(TASK, self.call, PATTERN, self.draws)
        self.launched = {
            mode: self.draws.sample(range(self.sets.count), self.sets.count - index)
            for index, mode in enumerate(MODES)
        }

    def tensors(self) -> tuple[Any, Any]:
        from astra_chat.tools.runners.cuda_compare import elements

        pairs = zip(TASK.args, self.sets._tensors, strict=True)
        out, given = (elements(arg, CASE, tensor) for arg, tensor in pairs)
        return out, given

    def launch(self) -> Any:
        import torch

        out, given = self.tensors()
        gate, up = given.float().chunk(2, dim=-1)
        out.copy_(torch.nn.functional.silu(gate) * up)
        return out

    def verified(self, fault: tuple[TimedMode, int] | None = None) -> CaseReport:
        from astra_chat.tools.runners.cuda_timing import verified

        for mode, sets in self.launched.items():
            self.sets.refill()
            out = self.launch()
            if fault and fault[0] == mode:
                out[sets[fault[1]], 63, 2047] += 1
            self.sets.keep(mode, sets)
        self.sets.refill()
        self.launch()
        return verified(TASK, self.call, self.sets, self.draws)


@pytest.fixture
def timed(tmp_path: Path) -> Iterator[Timed]:
    oracle = Oracle(TASK)
    (case,) = oracle.oracle_cases([CASE], Stop())
    yield Timed(case.inputs, tmp_path)
    oracle.close()


def test_no_two_sets_hold_the_same_inputs(timed: Timed) -> None:
    _, given = timed.tensors()
    assert len({one.cpu().numpy().tobytes() for one in given}) == timed.sets.count
    own = np.fromfile(timed.call.inputs / "input.in", dtype=np.uint8)
    assert given[timed.sets.own].cpu().numpy().tobytes() == own.tobytes()


def test_what_is_correct_is_compared_in_all_sets_and_a_drawn_part_handed_over(
    timed: Timed, tmp_path: Path
) -> None:
    report = timed.verified()
    assert report.compared == sum(map(len, timed.launched.values()))
    assert (report.doubtful, report.touched) == (0, ())
    count = timed.sets.count
    assert len(report.sets) == -(-count // 20) and all(one.baseline for one in report.sets)
    assert report.sets[0].own and report.sets[0].number == timed.sets.own
    for fetched in report.sets:
        folder = tmp_path / fetched.folder
        result = (folder / "out.after").read_bytes()
        assert len(result) == 64 * 2048 * 2
        assert result == (folder / "baseline" / "out.after").read_bytes()
        assert (folder / "input.in").exists() == (not fetched.own)


@pytest.mark.parametrize("mode", MODES)
def test_one_wrong_element_of_one_set_in_one_mode_is_found(
    timed: Timed, tmp_path: Path, mode: TimedMode
) -> None:
    place = timed.draws.randrange(len(timed.launched[mode]))
    report = timed.verified((mode, place))
    assert report.doubtful == 1
    number = timed.launched[mode][place]
    (fetched,) = (one for one in report.sets if (one.mode, one.number) == (mode, number))
    result = np.fromfile(tmp_path / fetched.folder / "out.after", dtype=np.float16)
    baseline = timed.tensors()[0][number].flatten().cpu().numpy()
    assert np.flatnonzero(result != baseline).tolist() == [64 * 2048 - 1]


@pytest.mark.parametrize("what", ["guard", "input", "source"])
def test_what_no_launch_may_change_is_looked_at_in_every_set(timed: Timed, what: str) -> None:
    sets, which = timed.sets, timed.draws.randrange(timed.sets.count)
    out, given = sets._tensors
    {"guard": out, "input": given, "source": sets._filled[1]}[what][which, -1] ^= 1
    sets.keep("cold", timed.launched["cold"][:3])
    sets.look_at_sources()
    assert sets.touched == {"out" if what == "guard" else "input"}


def test_no_results_are_left_in_memory(timed: Timed) -> None:
    timed.verified()
    (kept, *_) = timed.sets.kept
    timed.sets.wipe()
    assert not kept.results["out"].any() and timed.sets.kept == []
    assert (timed.sets._tensors[0].cpu().numpy().view(np.uint16) == PATTERN).all()
