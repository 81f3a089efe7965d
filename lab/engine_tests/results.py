"""What an engine's tests found with winners and without."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import TypeAdapter, ValidationError

from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import BadInput

VARIANTS = ("with", "without")


class TestResult(Value):
    """One test with winners, or without."""

    __test__ = False

    test: str
    variant: str
    outcome: str
    why: str
    took: int
    """Calls that winners took in it."""


class CallCounts(Value):
    """What became of one process's calls: operator, what, reason, count."""

    counts: tuple[tuple[str, str, str, int], ...]


LINE: TypeAdapter[TestResult | CallCounts] = TypeAdapter(TestResult | CallCounts)


@dataclass
class TestsFound:
    """The tests of all processes."""

    tests: dict[str, dict[str, TestResult]] = field(default_factory=dict)
    """Results of a test by variant, by its name."""
    counts: Counter[tuple[str, str, str]] = field(default_factory=Counter)


def read_results(paths: Iterable[Path]) -> TestsFound:
    """Raises BadInput."""
    found = TestsFound()
    for path in paths:
        for line in path.read_text().splitlines():
            try:
                one = LINE.validate_python(json.loads(line))
            except (ValueError, ValidationError):
                raise BadInput(f"{path} contains no results of tests") from None
            if isinstance(one, TestResult):
                found.tests.setdefault(one.test, {})[one.variant] = one
            else:
                for *key, count in one.counts:
                    found.counts[key[0], key[1], key[2]] += count
    return found


def summary(found: TestsFound) -> Iterator[str]:
    """Counts by file, each difference, failures of both, and what winners did."""
    files = sorted({test.partition("::")[0] for test in found.tests})
    for file in files:
        tests = [both for test, both in found.tests.items() if test.startswith(f"{file}::")]
        yield f"{file}: " + "; ".join(_counts(variant, tests) for variant in VARIANTS)
    differing = [both for both in found.tests.values() if _differ(both)]
    yield f"tests whose outcome differs: {len(differing)}"
    for both in differing:
        yield "  " + "; ".join(_words(both[variant]) for variant in VARIANTS)
    failed = [one for both in found.tests.values() if not _differ(both) for one in both.values()]
    reasons = Counter(one.why[:120] for one in failed if one.outcome == "failed")
    yield f"failed in both: {sum(reasons.values()) // len(VARIANTS)}"
    yield from (f"  {count}x {why}" for why, count in reasons.most_common(20))
    for (operator, what, reason), count in sorted(found.counts.items()):
        if what != "off":
            yield f"{operator:28} {what:10} {count:>8}  {reason}".rstrip()


def _counts(variant: str, tests: Sequence[dict[str, TestResult]]) -> str:
    some = [both[variant] for both in tests if variant in both]
    outcomes = Counter(one.outcome for one in some)
    took = sum(one.took > 0 for one in some)
    counts = ", ".join(f"{n} {outcome}" for outcome, n in sorted(outcomes.items()))
    seen = f" (winners ran in {took})" if variant == "with" else ""
    return f"{variant} winners {counts or 'none'}{seen}"


def _differ(both: dict[str, TestResult]) -> bool:
    return len({one.outcome for one in both.values()}) > 1


def _words(one: TestResult) -> str:
    return f"{one.test} {one.variant} winners {one.outcome} {one.why}".rstrip()
