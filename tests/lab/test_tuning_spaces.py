"""The marks of the studied spaces fit the shipped kernels."""

from __future__ import annotations

import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import find_task
from astra_vgpu.ground.errors import BadInput
from lab.tuning_spaces import SPACES, space_of


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
