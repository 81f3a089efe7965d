"""How many tokens per second does SGLang's engine gain with a package's winners?

    python -m lab.engine_rates PACKAGE -o RATES.jsonl [--http]   measures, on a GPU with SGLang
    python -m lab.engine_rates RATES.jsonl...                    prints earlier measurements again

The engine is started several times with and without winners, and the starts are compared. Two
groups run without winners, to show how much starts of the same engine differ (A/A). The interval
comes from the rank test of Wilcoxon, Mann and Whitney, which assumes nothing about the distribution
of rates.
"""

from __future__ import annotations

import argparse
import math
import shlex
import statistics
import sys
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from astra_chat.package.checking import unpacked
from astra_chat.package.proof import run_engine
from astra_chat.step.intervals import CONFIDENCE, Interval
from astra_chat.step.running import INSIDE
from astra_chat.tools.system.files import write_whole
from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import BadInput, MissingDependency
from lab.commands import one_line_errors

MODULE = "astra_step.serving"


class Start(Value):
    """One start of an engine."""

    wave: int
    variant: Literal["without", "again", "with"]
    error: str
    rates: dict[str, tuple[Annotated[float, Field(gt=0)], ...]]
    """Tokens per second of each call, by the number of requests."""
    took: dict[str, int]
    """Calls that winners took in the engine's processes, which were killed."""


class ServingRequest(Value):
    """What the program in the engine's Python measures."""

    model: str
    http: bool
    batches: tuple[int, ...] = (1, 8, 64)
    prompt_tokens: int = 128
    tokens: int = 128
    rounds: int = 9
    waves: int
    together: int
    arguments: tuple[str, ...] = ()
    limit_s: float
    seed: int = 0
    out: str


def shift(some: Sequence[float], others: Sequence[float]) -> Interval:
    """The factor between two variants: the median of all ratios of one start of each, and where it
    is with 95 % confidence. With few starts, between the outermost ratios."""
    ratios = sorted(one / other for one in some for other in others)
    outer = _below(len(some), len(others))
    return Interval(
        ratio=statistics.median(ratios), low=ratios[outer], high=ratios[len(ratios) - 1 - outer]
    )


def _below(first: int, second: int) -> int:
    """How many of the sorted ratios lie outside of the interval on each side: as many as chance
    alone puts on one side of 1 in 2.5 of 100 cases."""
    under, count = 0, 0
    while under + _ways(first, second, count) <= (1 - CONFIDENCE) / 2 * math.comb(
        first + second, first
    ):
        under += _ways(first, second, count)
        count += 1
    return max(count - 1, 0)


@cache
def _ways(first: int, second: int, below: int) -> int:
    """Orders of two sorted groups with so many pairs in which the second's member is smaller."""
    if below < 0:
        return 0
    if not first or not second:
        return int(below == 0)
    return _ways(first - 1, second, below - second) + _ways(first, second - 1, below)


def summary(starts: Sequence[Start]) -> Iterator[str]:
    """A line for each number of requests: the gain, and what starts without winners differ by.
    Raises BadInput where a variant is missing."""
    sound = [one for one in starts if not one.error and one.rates]
    rates = {
        variant: [one.rates for one in sound if one.variant == variant]
        for variant in ("without", "again", "with")
    }
    if not all(rates.values()):
        raise BadInput(
            f"no start succeeded for {', '.join(v for v, some in rates.items() if not some)}"
        )
    yield ", ".join(f"{len(some)} starts {variant}" for variant, some in rates.items())
    for requests in sound[0].rates:
        own = {
            variant: [statistics.median(one[requests]) for one in some]
            for variant, some in rates.items()
        }
        plain = own["without"] + own["again"]
        gain, noise = shift(own["with"], plain), shift(own["again"], own["without"])
        yield (
            f"{requests:>5} requests: {statistics.median(plain):9.1f} tokens/s without winners,"
            f" {gain.words} with them; A/A {noise.words}; {_verdict(gain, noise)}"
        )
    for name in sorted({name for one in sound for name in one.took}):
        took = [one.took.get(name, 0) for one in sound if one.variant == "with"]
        off = sum(one.took.get(name, 0) for one in sound if one.variant != "with")
        yield (
            f"{name}: handled {min(took)} to {max(took)} calls in each start, {off} without winners"
        )
    for one in starts:
        if one.error:
            yield f"a start {one.variant}: {one.error}"


def _verdict(gain: Interval, noise: Interval) -> str:
    """A gain and a loss are outside of 1, and larger than what the same engine differs by."""
    if gain.low > max(1.0, noise.high):
        return "gains"
    return "loses" if gain.high < min(1.0, noise.low) else "no difference"


def read_starts(paths: Sequence[Path]) -> list[Start]:
    """Raises BadInput."""
    found = []
    for path in paths:
        try:
            lines = path.read_text().splitlines()
            found += [Start.model_validate_json(line) for line in lines]
        except OSError as error:
            raise BadInput(f"cannot read {path}: {error.strerror}") from None
        except ValidationError:
            raise BadInput(f"{path} contains no engine starts, one JSON object per line") from None
    return found


def measure(package: Path, request: ServingRequest, python: str) -> None:
    """Append a line for each start to the request's file. Raises MissingDependency."""
    with unpacked(package) as site, tempfile.TemporaryDirectory(prefix="astra-rates-") as name:
        asked = Path(name) / "request.json"
        write_whole(asked, request.model_dump_json().encode())
        command = [python, "-m", MODULE, str(asked)]
        ended = run_engine(command, [site, INSIDE], {"ASTRA_WINNERS_TRIAL": "1"}, 0)
    if ended != 0:
        raise MissingDependency(f"the engine was not measured: exit code {ended}; see above")


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("given", nargs="+", type=Path, metavar="PACKAGE|RATES.jsonl")
    parser.add_argument("-o", "--out", type=Path)
    parser.add_argument(
        "--http", action="store_true", help="use the HTTP server instead of sglang.Engine"
    )
    parser.add_argument("--model", default="moe6", help="moe6, dense8, or a folder")
    parser.add_argument("--waves", type=int, default=2, help="groups of starts, one after another")
    parser.add_argument("--together", type=int, default=2, help="starts per variant in a group")
    parser.add_argument("--engine-arguments", default="", metavar="WORDS")
    parser.add_argument(
        "--limit", type=float, default=3600, help="start nothing more after this many seconds"
    )
    parser.add_argument("--python", default=sys.executable, help="the engine's Python")
    given = parser.parse_args()
    paths = given.given
    if given.out is not None:
        if len(paths) != 1:
            raise BadInput("give one package")
        request = ServingRequest(
            model=given.model,
            http=given.http,
            waves=given.waves,
            together=given.together,
            arguments=tuple(shlex.split(given.engine_arguments)),
            limit_s=given.limit,
            out=str(given.out.absolute()),
        )
        measure(paths[0], request, given.python)
        paths = [given.out]
    for line in summary(read_starts(paths)):
        print(line)


if __name__ == "__main__":
    main()
