"""What a study of regret found: the tuner's choice beside the best of an exhaustive measurement.

Its tuning spaces say which constants of the shipped kernels are left open. The sources stay as they
are shipped; here are the marks that are put into them, each an exact
piece of the source and what takes its place. A winner's constants are its own. A baseline has few:
its loops get an unroll count and its kernel launch bounds, so its starting point is not its code.
"""

from __future__ import annotations

import math
import random
import statistics
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path
from typing import Literal

from pydantic import ConfigDict, Field, ValidationError

from astra_chat.tools.recordings.reading import read_recorded
from astra_chat.tools.system.files import write_whole
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.tuning.halving_rounds import Halving
from astra_chat.tools.tuning.space import Space, read_space
from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import BadInput

DRAWS = 2000
"""Draws of points at random, to say what they would have found."""


class StudiedPoint(Value):
    """A point of a space; ratios are over the task's baseline."""

    values: dict[str, int]
    candidate: str
    estimated: float | None = None
    """Ratio by the virtual GPU's estimate; None: not estimated."""
    measured: float | None = None
    """Ratio by the exhaustive measurement; None where it was not measured, or failed."""
    failed: str = ""
    """Kind of the outcome that ended its measurement."""

    @property
    def known(self) -> bool:
        return self.measured is not None or bool(self.failed)


class SpaceStudy(Value):
    """One space."""

    space: str
    device: str = ""
    """Name of the device; empty before anything is timed."""
    basis: Literal["measured", "estimated"] = "measured"
    cases: tuple[str, ...]
    points: tuple[StudiedPoint, ...]
    measurements: int
    """Candidates that the tuner began with."""
    ranked: bool = False
    """Whether the points have their estimates; a point that has none could not be estimated."""
    halving: Halving | None = None
    again: tuple[tuple[float, float], ...] = ()
    """Ratios of the exhaustive best and of the tuner's, on fresh seeds, by turns."""
    seconds: dict[str, float] = Field(default_factory=dict)
    """Seconds of each part of the study: exhaustive, tuner and again."""
    problem: str = ""
    """Why it could not be studied."""

    def with_ranks(self, ranks: Sequence[float | str]) -> SpaceStudy:
        """Returns the study with each point's estimate; a word in its place says why there is
        none."""
        estimates = [rank if isinstance(rank, float) else None for rank in ranks]
        points = tuple(
            point.model_copy(update={"estimated": estimate})
            for point, estimate in zip(self.points, estimates, strict=True)
        )
        return self.model_copy(update={"points": points, "ranked": True})

    @property
    def of(self) -> tuple[tuple[str, ...], list[str]]:
        """What it studies: cases and points. Figures of others are not comparable."""
        return self.cases, [point.candidate for point in self.points]

    @property
    def done(self) -> bool:
        return bool(self.again) and all(point.known for point in self.points)

    @property
    def measured(self) -> list[StudiedPoint]:
        return [point for point in self.points if point.measured is not None]

    @property
    def best(self) -> StudiedPoint:
        """The fastest point by the exhaustive measurement."""
        return max(self.measured, key=lambda point: point.measured or 0.0)

    @property
    def chosen(self) -> StudiedPoint:
        """The point that the tuner chose."""
        assert self.halving is not None
        return next(p for p in self.points if p.candidate == self.halving.left[0])

    @property
    def regret(self) -> tuple[float, float]:
        """Share by which the tuner's choice is slower on fresh seeds, and twice its standard error
        over the repeats: too few for an interval of 95 %."""
        if self.best.candidate == self.chosen.candidate:
            return 0.0, 0.0
        logs = [math.log(best / chosen) for best, chosen in self.again]
        half = 2 * statistics.stdev(logs) / math.sqrt(len(logs)) if len(logs) > 1 else math.inf
        return math.exp(statistics.mean(logs)) - 1, half

    @property
    def by_chance(self) -> float:
        """Median regret of as many points at random as the tuner measured, by the exhaustive
        measurement itself."""
        ratios = [point.measured or 0.0 for point in self.measured]
        count = min(self.measurements, len(ratios))
        draws = random.Random(0)
        found = [max(draws.sample(ratios, count)) for _ in range(DRAWS)]
        return max(ratios) / statistics.median(found) - 1


class RegretStudy(Value):
    """All that one command studied."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/regret/1"] = Field(alias="schema")
    spaces: tuple[SpaceStudy, ...] = ()


def read(path: Path) -> RegretStudy:
    """Read a study. Raises BadInput."""
    try:
        return RegretStudy.model_validate_json(read_recorded(path))
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except ValidationError:
        raise BadInput(f"{path} was not written by measure_regret") from None


def study_of(spaces: Iterable[SpaceStudy]) -> RegretStudy:
    return RegretStudy(schema="astra-chat/regret/1", spaces=tuple(spaces))


def write(study: RegretStudy, path: Path) -> None:
    """Replace the file at once. Raises BadInput."""
    write_whole(path, study.model_dump_json(indent=1).encode())


def joined(studies: Iterable[RegretStudy]) -> RegretStudy:
    """Each space of each device once, from the file that knows most of it: GPUs that measure at
    once write a file each. A space without times is left out where another file has them. Raises
    BadInput where two files time a space on other cases or points."""
    known = dict[tuple[str, str], SpaceStudy]()
    for one in chain.from_iterable(study.spaces for study in studies):
        other = known.setdefault((one.space, one.device), one)
        if one.of != other.of:
            raise BadInput(f"these files study {one.space} on different cases or points")
        known[one.space, one.device] = max(other, one, key=_told)
    timed = {space for space, device in known if device}
    kept = [one for one in known.values() if one.device or one.space not in timed]
    return study_of(kept)


def _told(one: SpaceStudy) -> tuple[bool, bool, bool, int, bool]:
    known = sum(point.known for point in one.points)
    return one.done, bool(one.again), one.halving is not None, known, one.ranked


def document(spaces: Sequence[SpaceStudy]) -> str:
    """A Markdown table; estimates and measurements are marked."""
    head = (
        "| space | device | cases | points, measured | exhaustive best | tuner's choice"
        " | regret on fresh seeds | by chance | timings of the tuner, exhaustive | seconds of the"
        " tuner, exhaustive |"
    )
    return "\n".join([head, "|---" * 10 + "|", *map(_row, spaces)])


def _row(one: SpaceStudy) -> str:
    def cells() -> Iterator[str]:
        yield from (one.space, f"{one.device}, {one.basis}", str(len(one.cases)))
        yield f"{len(one.points)}, {len(one.measured)}"
        if one.problem or not (one.measured and one.halving and one.again):
            yield one.problem or "not finished"
            yield from [""] * 5
            return
        regret, half = one.regret
        same = one.best.candidate == one.chosen.candidate
        yield f"{one.best.measured:.3f}x: {_values(one.best)}"
        yield "the same" if same else f"{_ratio(one.chosen)}: {_values(one.chosen)}"
        yield "0" if same else f"{100 * regret:+.2f} ± {100 * half:.2f} %"
        yield f"{100 * one.by_chance:.2f} %"
        yield f"{one.halving.timings}, {len(one.measured) * len(one.cases)}"
        yield f"{one.seconds.get('tuner', 0):.0f}, {one.seconds.get('exhaustive', 0):.0f}"

    return f"| {' | '.join(cells())} |"


def _values(point: StudiedPoint) -> str:
    return ", ".join(f"{name} {value}" for name, value in point.values.items())


def _ratio(point: StudiedPoint) -> str:
    return f"{point.measured:.3f}x" if point.measured else "not measured"


@dataclass(frozen=True)
class Marked:
    """A shipped kernel, and the marks for it."""

    file: str
    """In the task's folder."""
    edits: tuple[tuple[str, str], ...]


SPACES = {
    "silu_and_mul/winner": Marked(
        "script/fitted.cu",
        (
            ("kSmallBlock = 128;", "kSmallBlock = 128;  // tune: 32 64 96 192 256"),
            ("kLargeBlock = 512;", "kLargeBlock = 512;  // tune: 128 256 1024"),
            (
                "kResidentThreads = 132 * 2048;",
                "kResidentThreads = 270336;  // tune: 33792 67584 135168 540672 1081344\n"
                "// require: kSmallBlock <= kLargeBlock\n//",
            ),
        ),
    ),
    "silu_and_mul/baseline": Marked(
        "baseline.cu",
        (
            (
                "constexpr int kMaxThreads = 1024;",
                "constexpr int kMaxThreads = 1024;  // tune: 64 96 128 192 256 384 512 768\n"
                "constexpr int kUnroll = 1;  // tune: 2 4 8\n"
                "constexpr int kMinBlocks = 1;  // tune: 2 3 4\n"
                "// require: kMaxThreads * kMinBlocks <= 2048",
            ),
            (
                "__global__ void silu",
                "__global__ void __launch_bounds__(kMaxThreads, kMinBlocks) silu",
            ),
            (
                "#pragma unroll 1\n  for (int index = thread; index < d",
                "#pragma unroll kUnroll\n  for (int index = thread; index < d",
            ),
        ),
    ),
    "fused_add_rmsnorm/winner": Marked(
        "script/fitted.cu",
        (
            ("kFewThreads = 512;", "kFewThreads = 512;  // tune: 128 192 256 384 640 768"),
            ("kFewRows = 2 * 132;", "kFewRows = 264;  // tune: 1 66 132 528 1056 2112\n//"),
            ("kL2Bytes = 60 * 1000 * 1000;", "kL2Bytes = 60000000;  // tune: 1000000 30000000\n//"),
        ),
    ),
    "fused_add_rmsnorm/baseline": Marked(
        "baseline.cu",
        (
            (
                "constexpr int kMaxThreads = 1024;",
                "constexpr int kMaxThreads = 1024;  // tune: 128 256 384 512 640 768\n"
                "constexpr int kUnrollAdd = 4;  // tune: 1 2\n"
                "constexpr int kUnrollScale = 4;  // tune: 1 2\n"
                "constexpr int kMinBlocks = 1;  // tune: 2",
            ),
            (
                "__global__ void fused",
                "__global__ void __launch_bounds__(kMaxThreads, kMinBlocks) fused",
            ),
            (
                "  float squares = 0.0f;\n  for (int round",
                "  float squares = 0.0f;\n#pragma unroll kUnrollAdd\n  for (int round",
            ),
            (
                "+ eps);\n\n  for (int round",
                "+ eps);\n\n#pragma unroll kUnrollScale\n  for (int round",
            ),
        ),
    ),
    "merge_state_v2/winner": Marked(
        "script/fitted.cu",
        (
            ("kSmallBlock = 128;", "kSmallBlock = 128;  // tune: 32 64 256"),
            ("kBlock = 256;", "kBlock = 256;  // tune: 512"),
            ("kLargeBlock = 512;", "kLargeBlock = 512;  // tune: 256 1024"),
            ("kSmallCall = 65536;", "kSmallCall = 65536;  // tune: 4096 16384 32768 131072\n//"),
        ),
    ),
    "merge_state_v2/baseline": Marked(
        "baseline.cu",
        (
            (
                "constexpr unsigned kThreads = 128;",
                "constexpr unsigned kThreads = 128;  // tune: 32 64 96 192 256 384 512 768 1024\n"
                "constexpr unsigned kEach = 1;  // tune: 2 4 8\n"
                "constexpr int kMinBlocks = 1;  // tune: 2 4\n"
                "// require: kThreads * kMinBlocks <= 2048",
            ),
            (
                "__global__ void merge",
                "__global__ void __launch_bounds__(kThreads, kMinBlocks) merge",
            ),
            (
                "  const unsigned index = blockIdx.x * kThreads + threadIdx.x;",
                "#pragma unroll\n  for (unsigned turn = 0; turn < kEach; ++turn) {\n"
                "  const unsigned index = (blockIdx.x * kEach + turn) * kThreads + threadIdx.x;",
            ),
            (
                "out_lse[row] = logf(total) + max_lse;\n}",
                "out_lse[row] = logf(total) + max_lse;\n}\n}",
            ),
            (
                "blocks = (packs + kThreads - 1) / kThreads;",
                "blocks = (packs + kThreads * kEach - 1) / (kThreads * kEach);",
            ),
        ),
    ),
}


def space_of(name: str) -> Space:
    """The space of this name. Raises BadInput where there is none, or where the kernel no longer
    holds what a mark is for."""
    if name not in SPACES:
        raise BadInput(f"no space '{name}': there are {', '.join(SPACES)}")
    marked = SPACES[name]
    path = find_task(name.partition("/")[0]).folder / marked.file
    source = path.read_text()
    for old, new in marked.edits:
        if source.count(old) != 1:
            raise BadInput(
                f"{path.name} of {name} does not contain '{old}' exactly once: change its marks"
            )
        source = source.replace(old, new)
    return read_space(source)
