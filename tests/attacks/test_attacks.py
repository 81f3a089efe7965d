"""Every attack is caught by every gate that must catch it; honest kernels of many styles pass."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.types import Device
from lab.attack_kernels import kernels
from tests.attacks import bench as gates
from tests.attacks import suite

TIMING = {f"T{n}" for n in range(1, 23)}
SEMANTICS = {f"S{n}" for n in range(1, 37)}
HARNESS = {f"H{n}" for n in range(1, 20)}
KERNELS = [attack for attack in gates.attacks() if attack.gates]
STATIC = [(a, g) for a in KERNELS for g in a.gates if g in ("guard", "build", "audit")]
RUNNING = [
    (a, g)
    for a in KERNELS
    for g in dict.fromkeys((*a.gates, *a.cuda_gates))
    if g in ("check", "sanitize", "time", "confirm")
]

Benches = Callable[[str], gates.Bench]


@pytest.fixture(scope="module", params=["virtual", pytest.param("cuda", marks=pytest.mark.gpu)])
def device(request: pytest.FixtureRequest) -> Device:
    return pick_device(request.param)


@pytest.fixture(scope="module")
def bench(device: Device) -> Iterator[Benches]:
    made: dict[str, gates.Bench] = {}

    def of(task: str) -> gates.Bench:
        if task not in made:
            made[task] = gates.Bench(gates.task_of(task), device)
        return made[task]

    yield of
    for one in made.values():
        one.oracle.close()


def test_the_whole_catalogue_is_in_the_table() -> None:
    ids = [attack.id for attack in gates.attacks()]
    assert len(ids) == len(set(ids))
    assert TIMING | SEMANTICS | HARNESS <= set(ids)
    assert all(bool(attack.test) != bool(attack.gates) for attack in gates.attacks())


def test_every_kernel_stands_in_the_table() -> None:
    assert kernels("attacks").keys() == {attack.file for attack in KERNELS if not attack.edits}


def test_the_impossible_ones_name_a_test_that_is_there() -> None:
    text = Path(__file__).with_name("test_impossible.py").read_text() + Path(__file__).read_text()
    for attack in gates.attacks():
        assert not attack.test or f"def {attack.test}(" in text, attack.id


def named(pairs: list[tuple[object, str]]) -> list[str]:
    return [f"{attack.id}-{gate}" for attack, gate in pairs]  # type: ignore[attr-defined]


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("attack", "gate"), STATIC, ids=named(STATIC))
def test_an_attack_is_caught_before_it_runs(
    bench: Benches, attack: gates.Attack, gate: str
) -> None:
    found = gates.caught(bench(attack.task), attack, gate)
    assert found.caught, found.words


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("attack", "gate"), RUNNING, ids=named(RUNNING))
@pytest.mark.second_tier
def test_an_attack_is_caught_when_it_runs(
    bench: Benches, device: Device, attack: gates.Attack, gate: str
) -> None:
    if not attack.runs_on(device.kind) or gate not in attack.gates_on(device.kind):
        pytest.skip("cannot be told on this device")
    found = gates.caught(bench(attack.task), attack, gate)
    assert found.caught, found.words


@pytest.mark.sampled(12)
@pytest.mark.parametrize(("task", "file"), gates.honest(), ids=[f for _, f in gates.honest()])
@pytest.mark.second_tier
def test_an_honest_kernel_is_accepted(bench: Benches, device: Device, task: str, file: str) -> None:
    said = gates.honest_words(bench(task), kernels("honest")[file])
    if device.kind == "virtual" and said.startswith("unsupported"):
        pytest.skip(said)
    assert said == "correct"


def test_the_honest_kernels_are_no_near_copies() -> None:
    """Each differs from every other of its task in at least a sixth of its words."""
    bags = {f: _words(text) for f, text in kernels("honest").items()}
    for task, file in gates.honest():
        for other_task, other in gates.honest():
            if task == other_task and file < other:
                a, b = bags[file], bags[other]
                assert len(a & b) / len(a | b) < 5 / 6, (file, other)


def _words(text: str) -> set[tuple[str, ...]]:
    """Runs of three words."""
    words = re.findall(r"\w+|[^\w\s]", text)
    return {tuple(words[i : i + 3]) for i in range(len(words) - 2)}


def test_the_document_says_what_was_recorded() -> None:
    assert suite.document() == suite.DOCUMENT.read_text()
