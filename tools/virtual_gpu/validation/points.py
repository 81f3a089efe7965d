"""The kernels that times are measured and estimated of: a folder with set.toml and kernels/."""

from __future__ import annotations

import tomllib
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path

from astra_chat.tools.errors import BadInput

HERE = Path(str(files("astra_chat.tools.virtual_gpu.validation")))


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
        return [
            Point(
                task["name"], variant, a, b, folder / "kernels" / task["source"],
                task["in"] * a * b, task["out"] * a * b,
            )
            for task in sorted(tasks, key=lambda t: str(t["source"]))
            for a, b in task["shapes"]
            for variant in task["variants"]
        ]  # fmt: skip
    except (OSError, tomllib.TOMLDecodeError, KeyError, TypeError, ValueError) as error:
        raise BadInput(f"{folder} holds no set of kernels (set.toml): {error}") from None
