"""A set of kernels to measure and estimate: set.toml in its folder, and its kernels in
../kernels.tar.xz, which holds those of all sets and is unpacked where nvcc reads them."""

from __future__ import annotations

import atexit
import math
import shutil
import tarfile
import tempfile
import tomllib
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from astra_vgpu.ground.errors import BadInput

HERE = Path(str(files("lab.virtual_gpu.validation")))
SETS = HERE.parent
KERNELS = SETS / "kernels.tar.xz"


@dataclass(frozen=True)
class Point:
    """One variant of a task at one shape."""

    task: str
    variant: str
    """Name of the launcher."""
    a: int
    b: int
    source: Path
    in_bytes: int
    out_bytes: int
    ids: int = 0
    """So many int32 come first in the input, each below `below`; the rest of it is words."""
    below: int = 1

    @property
    def key(self) -> tuple[str, int, int]:
        return self.variant, self.a, self.b

    @property
    def shape(self) -> tuple[str, int, int]:
        """What variants must have in common to be compared."""
        return self.task, self.a, self.b


def read_points(folder: Path = HERE) -> list[Point]:
    """All points of a set, by source. Raises BadInput for a folder that holds none."""
    try:
        tasks = tomllib.loads((folder / "set.toml").read_text())["task"]
        kernels = kernels_of(folder)
        return [
            Point(
                task["name"],
                variant,
                a,
                b,
                kernels / task["source"],
                _size(task["in"], a, b),
                _size(task["out"], a, b),
                _size(task.get("ids", "0"), a, b),
                _size(task.get("below", "1"), a, b),
            )
            for task in sorted(tasks, key=lambda t: str(t["source"]))
            for a, b in task["shapes"]
            for variant in task["variants"]
        ]
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{folder} contains no set of kernels (set.toml): {error}") from None


def kernels_of(folder: Path) -> Path:
    """Returns where the kernels of a set are, those of kernels.tar.xz until this process ends."""
    own, place = folder / "kernels", folder.resolve()
    if own.is_dir() or not place.is_relative_to(SETS):
        return own
    return _unpacked() / place.relative_to(SETS) / "kernels"


@cache
def _unpacked() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="astra-kernels-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    with tarfile.open(KERNELS) as archive:
        archive.extractall(folder, filter="data")
    return folder


def _size(formula: int | str, a: int, b: int) -> int:
    """A number for each of a x b, or a sum of products: "4*a + 2*a*b"."""
    if isinstance(formula, int):
        return formula * a * b
    known = {"a": a, "b": b}
    return sum(
        math.prod(known[f] if f in known else int(f) for f in map(str.strip, term.split("*")))
        for term in formula.split("+")
    )


def words(number: int) -> NDArray[np.uint32]:
    """The first words of a buffer as measure.cu fills it: halves of 0 to 2. uint32 [number]."""
    return np.uint32(0x38000000) | (_mixed(number) & np.uint32(0x07FF3FFF))


def input_of(point: Point) -> NDArray[np.uint32]:
    """The whole input as measure.cu fills it. uint32 [in_bytes / 4]."""
    values = words(point.in_bytes // 4)
    values[: point.ids] = _mixed(point.ids) % np.uint32(point.below)
    return values


def _mixed(number: int) -> NDArray[np.uint32]:
    x = np.arange(number, dtype=np.uint32) * np.uint32(2654435761)
    x = (x ^ x >> np.uint32(15)) * np.uint32(2246822519)
    return x ^ x >> np.uint32(13)
