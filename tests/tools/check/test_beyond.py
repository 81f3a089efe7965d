"""What is begun beside the oracle's calls: the same is found as where it is done after them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.calls import CheckProgress
from astra_chat.tools.check.kernels import BeyondOracle, CheckedKernels, FarFault, Launching
from astra_chat.tools.entropy import Seed
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.system import background as module
from astra_chat.tools.system.subprocesses import Cancelled, Stop
from astra_chat.tools.types import Case, Correct, Device
from tests.tools.check.test_kernels import CHECK, TASK, with_paths


class Made:
    """A source's kernels, and far calls that say what they were asked."""

    def __init__(self, source: str, device: Device) -> None:
        built, baseline = (build(TASK, one, device) for one in (source, TASK.baseline))
        assert isinstance(built, Build) and isinstance(baseline, Build)
        self.built, self.baseline, self.runner = built, baseline, Runner(TASK, device)
        self.sought: list[threading.Thread] = []
        self.far: list[list[Launching]] = []

    def kernels(self, stop: Stop) -> CheckedKernels:
        self.sought.append(threading.current_thread())
        runner = replace(self.runner, seed=Seed("7"), stop=stop)
        return CheckedKernels(runner, self.built, self.baseline, confirming=False)

    def far_calls(self, stop: Stop, ran: Sequence[Launching]) -> FarFault:
        stop.check()
        self.far.append(list(ran))
        return None

    def beyond(self, stop: Stop | None = None) -> BeyondOracle:
        return BeyondOracle(self.kernels, self.far_calls, stop or Stop())


@pytest.fixture
def made(scalar: str, device: Device) -> Made:
    return Made(with_paths(scalar, "d == 4352", ""), device)


def looked_at(found: BeyondOracle, cases: Sequence[Case]) -> tuple[tuple[Case, ...], int, FarFault]:
    """What is found once all that was sought was right: those calls, of how many, the far calls."""
    kernels = found.kernels(cases)
    fault = kernels.fault(CheckProgress(), lambda *_: Correct(cases=1, hidden=0, worst=0.0))
    assert fault is None
    return kernels.sought, kernels.calls, found.far_fault(kernels.would_have_run())


@pytest.mark.second_tier
@pytest.mark.parametrize("assumed", [CHECK, CHECK[:1]])
def test_it_finds_the_same_whenever_it_was_begun(
    made: Made, monkeypatch: pytest.MonkeyPatch, assumed: tuple[Case, ...]
) -> None:
    monkeypatch.setattr(module, "LEAST_CORES", 10_000)
    alone = made.beyond()
    alone.begin(lambda: pytest.fail("few cores"))
    expected = looked_at(alone, CHECK)
    assert any(case.dims["d"] == 4352 for case in expected[0])
    monkeypatch.setattr(module, "LEAST_CORES", 1)
    beside = made.beyond()
    beside.begin(lambda: assumed)
    assert looked_at(beside, CHECK) == expected
    beside.end()
    again = [] if assumed == CHECK else [threading.current_thread()]
    first, second, *others = made.sought
    assert first is threading.current_thread() is not second and others == again
    assert made.far[0] == made.far[-1] and len(made.far) == 2 + len(again)


def test_where_nobody_waits_it_ends(made: Made, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_CORES", 1)
    found, stop = made.beyond(), Stop()

    def late() -> Sequence[Case]:
        while True:
            found._stop.check()

    found.begin(late)
    found.end()
    with pytest.raises(Cancelled):
        found.kernels(CHECK)
    stop.set()
    with pytest.raises(Cancelled):
        made.beyond(stop).far_fault([])
    assert not made.far
