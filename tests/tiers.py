"""Two tiers of tests: `make test` runs the first, `make test-all` both.

The first tier runs every test that takes at most some two seconds on an idle core: of one with
parameters one of them, which depends on the test's name, so that all kinds of parameters are met.
The second tier has the rest, what needs a GPU, and what is marked `second_tier`: what takes longer,
such as searches, fits and kills at full count. Of one test's parameters it has at most MOST, or as
many as its mark `sampled(n)` says, evenly spread, of those for a GPU as many again; what is marked
`in_full` is in neither, nor are the long tests of tasks other than JUDGED_TASKS. For all of them
run pytest without `--tier`, which runs whatever is selected.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import Literal
from zlib import crc32

import pytest

from tests.sources import ROOT
from tests.virtual_gpu_suite import has_passed, is_covered

Tier = Literal["first", "second", "both"]
MARK = "second_tier"
SAMPLED = "sampled"
IN_FULL = "in_full"
MOST = 1
"""Parameters of a test in the second tier."""
TASKS = ROOT / "tests/sglang_kernels"
JUDGED_TASKS = ("merge_state_v2", "per_token_group_quant_fp8", "silu_and_mul")
"""Tasks whose honest and faulty kernels the second tier judges; without `--tier` all are."""
LONGEST = (
    "tests/astra_chat/test_own_kernel.py",
    "tests/astra_chat/test_run.py",
    "tests/astra_chat/optimize/test_optimize.py",
    "tests/astra_chat/detached/test_ray.py",
    "tests/astra_chat/campaign/test_driver.py",
    "tests/tools/check/test_checker.py",
    "tests/attacks/test_attacks.py",
    "tests/attacks/test_wrong_kernels.py",
    "tests/tools/test_judge.py",
    "tests/astra_chat/cli/test_tune.py",
    "tests/lab/test_judge_winners.py",
)
"""Files that take longest in both tiers: they begin first, so that no process ends with one while
the others have nothing left."""


def spread(count: int, sample: int) -> set[int]:
    """So many places of `count`, evenly spread; of one the last."""
    if sample == 1:
        return {count - 1}
    return {round(place * (count - 1) / (sample - 1)) for place in range(sample)}


def first_tier(name: str, count: int) -> set[int]:
    """Place of the one of a test function's parameters that belongs to the first tier."""
    return {crc32(name.encode()) % count} if count else set()


def by_function(items: Sequence[pytest.Item]) -> list[list[pytest.Item]]:
    """The items of each test function, in their order."""
    functions: dict[tuple[str, str], list[pytest.Item]] = defaultdict(list)
    for item in items:
        name = getattr(item, "originalname", None) or item.name
        functions[str(item.path), f"{item.parent and item.parent.name}::{name}"].append(item)
    return list(functions.values())


def by_machine(own: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """The items that run anywhere, and those for a GPU. A sample of these is none of those."""
    gpu = [item for item in own if item.get_closest_marker("gpu")]
    return [item for item in own if item not in gpu], gpu


def is_of_another_task(item: pytest.Item) -> bool:
    """Whether it judges kernels of a task that is not among JUDGED_TASKS."""
    if item.path.parent != TASKS or not item.get_closest_marker(MARK):
        return False
    given = (
        item.callspec.params
        if isinstance(item, pytest.Function) and hasattr(item, "callspec")
        else {}
    )
    return given.get("task", item.path.stem.removeprefix("test_")) not in JUDGED_TASKS


def split(items: Sequence[pytest.Item]) -> tuple[list[pytest.Item], list[pytest.Item]]:
    """Items of the first tier and of the second, each in their order."""
    first: set[pytest.Item] = set()
    left_out: set[pytest.Item] = set()
    for same in by_function(items):
        own = [] if same[0].get_closest_marker(IN_FULL) else same
        own = [item for item in own if not is_of_another_task(item)]
        left_out |= {*same} - {*own}
        if not own:
            continue
        short = [item for item in own if not any(map(item.get_closest_marker, (MARK, "gpu")))]
        name = getattr(own[0], "originalname", None) or own[0].name
        first |= {short[place] for place in first_tier(name, len(short))}
        mark = own[0].get_closest_marker(SAMPLED)
        most = mark.args[0] if mark else MOST
        for some in by_machine(own):
            if len(some) > most:
                left_out |= set(some) - {some[place] for place in spread(len(some), most)}
    second = [i for i in items if i not in first and i not in left_out]
    return [i for i in items if i in first], second


def chosen(items: Sequence[pytest.Item], tier: Tier) -> list[pytest.Item]:
    """The items of a tier in their order, without what a recorded run of the virtual GPU's suite
    covers."""
    first, second = split(items)
    if tier != "first" and has_passed():
        second = [item for item in second if not is_covered(item)]
    kept = {"first": {*first}, "second": {*second}, "both": {*first, *second}}[tier]
    return [item for item in items if item in kept]


def longest_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Items with those of LONGEST before the others, which keep their order."""
    place = {ROOT / name: at for at, name in enumerate(LONGEST)}
    return sorted(items, key=lambda item: place.get(item.path, len(LONGEST)))
