"""A study of regret: its figures, its table, and a file that is none."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.tuning.halving_rounds import Halving
from astra_vgpu.ground.errors import BadInput
from lab.regret import (
    SPACES,
    RegretStudy,
    SpaceStudy,
    StudiedPoint,
    document,
    joined,
    read,
    space_of,
)


def study(chosen: int, again: tuple[tuple[float, float], ...]) -> SpaceStudy:
    """Ten points, each faster than the one before; `chosen` is the tuner's."""
    points = tuple(
        StudiedPoint(values={"kThreads": n}, candidate=f"{n:012x}", measured=1 + n / 10)
        for n in range(10)
    )
    return SpaceStudy(
        space="silu_and_mul/winner",
        device="a GPU",
        basis="measured",
        cases=("a", "b"),
        points=points,
        measurements=4,
        halving=Halving(rounds=(), left=(f"{chosen:012x}",)),
        again=again,
    )


def test_regret_is_what_the_choice_loses_on_fresh_seeds() -> None:
    one = study(8, ((1.90, 1.80), (1.92, 1.80), (1.91, 1.80)))
    regret, half = one.regret
    assert regret == pytest.approx(1.91 / 1.80 - 1, rel=1e-3) and 0 < half < 0.01
    assert one.best.values == {"kThreads": 9} and one.done
    assert "+6.11 ±" in document([one]) and "kThreads 8" in document([one])


def test_the_same_point_has_no_regret_and_one_repeat_no_interval() -> None:
    assert study(9, ((1.9, 1.8),)).regret == (0.0, 0.0)
    assert study(8, ((1.9, 1.8),)).regret[1] == math.inf


def test_chance_finds_less_than_all() -> None:
    assert 0 < study(9, ()).by_chance < 0.5


def test_an_unfinished_space_is_said() -> None:
    one = study(8, ())
    assert not one.done and "not finished" in document([one])
    assert "no nvcc" in document([one.model_copy(update={"problem": "no nvcc"})])


def test_files_of_several_gpus_are_joined() -> None:
    """A GPU measures one space and holds the rankings of all."""
    whole = study(8, ((1.9, 1.8),))
    fresh = whole.model_copy(update={"device": "", "again": (), "halving": None})
    begun = whole.model_copy(update={"again": ()})
    elsewhere = whole.model_copy(update={"device": "another GPU", "again": ()})
    other = fresh.model_copy(update={"space": "silu_and_mul/baseline"})

    def of(*spaces: SpaceStudy) -> RegretStudy:
        return RegretStudy(schema="astra-chat/regret/1", spaces=spaces)

    found = joined([of(fresh, other), of(begun), of(whole, other), of(elsewhere), of(begun)])
    assert list(found.spaces) == [other, whole, elsewhere]
    shorter = whole.model_copy(update={"cases": ("a",)})
    with pytest.raises(BadInput, match="different cases or points"):
        joined([of(whole), of(shorter)])


def test_a_file_is_read_again_and_another_refused(tmp_path: Path) -> None:
    path = tmp_path / "regret.json"
    whole = RegretStudy(schema="astra-chat/regret/1", spaces=(study(8, ((1.9, 1.8),)),))
    path.write_text(whole.model_dump_json())
    assert read(path) == whole
    path.write_text("{}\n" * 2)
    with pytest.raises(BadInput, match="not written by measure_regret"):
        read(path)


def test_every_space_has_100_to_300_points() -> None:
    """A mark that no longer fits its kernel raises."""
    sizes = {name: len(list(space_of(name).points())) for name in SPACES}
    assert all(100 <= size <= 300 for size in sizes.values()), sizes
    assert {name.partition("/")[2] for name in SPACES} == {"winner", "baseline"}


@pytest.mark.parametrize("name", SPACES)
def test_the_starting_point_builds(name: str) -> None:
    task, space = find_task(name.partition("/")[0]), space_of(name)
    assert isinstance(build(task, space.at(space.first), pick_device("virtual")), Build)


def test_another_name_is_refused() -> None:
    with pytest.raises(BadInput, match="no space 'silu'"):
        space_of("silu")
