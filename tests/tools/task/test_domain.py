"""The legal domain of schema 2: combinations of types, strides, absent arguments, indices."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from astra_chat.tools.task.contract import Dim
from astra_chat.tools.task.domain import MAX_BYTES
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Case
from astra_vgpu.ground.errors import BadInput
from tests.tools.task.contracts import write_contract


@pytest.fixture
def task(tmp_path: Path) -> Task:
    return load_task(write_contract(tmp_path / "task"))


def test_a_case_names_its_types_or_they_follow(task: Task) -> None:
    assert task.variables == ("T", "I") and task.dtypes == ("float16", "float32")
    first, second, third = task.check
    assert (first.dtype, first.types) == ("float16", {"I": "int64"})
    assert (second.dtype, second.types) == ("float32", {"I": "int64"}), "only one is legal"
    slot = task.args[2]
    assert [slot.dtype_of(case) for case in (first, second, third)] == ["int64", "int64", "int32"]


def test_free_strides_lie_over_one_another(task: Task) -> None:
    key, case = task.args[1], task.check[2]
    assert key.shape_of(case) == (3, 2, 8) and key.strides_of(case) == (2 * 10 + 4, 10, 1)
    assert key.stride_names == ("key_stride_0", "key_stride_1")
    assert key.free_strides_of(case) == (24, 10)
    same = case.model_copy(update={"pads": {"key": 3}})
    assert key.strides_of(same) == (2 * 11 + 3, 11, 1)


def test_an_absent_argument_is_empty(task: Task) -> None:
    bias, case = task.args[3], task.check[2]
    assert bias.shape_of(case) == (0,) and bias.bytes_of(case) == 0 and not bias.present(case)
    assert bias.shape_of(task.check[0]) == (2,)


def test_least_bytes(task: Task, tmp_path: Path) -> None:
    case = task.check[0]
    cache, key, slot, bias = 2 * 16 * 16 * 2, 3 * 16 * 2, 3 * 8, 2 * 4
    assert task.least_bytes(case) == 2 * cache + key + slot + bias, "a workspace is the kernel's"
    stated = ("flops = ", 'least_bytes = "tokens * heads * head_size * 4"\nflops = ')
    other = load_task(write_contract(tmp_path / "other", stated))
    assert other.least_bytes(case) == 3 * 16 * 4


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"dims": {"rot_dim": 6, "head_size": 24}}, "not one of 8, 16"),
        ({"dims": {"rot_dim": 10}}, "'rot_dim <= head_size' does not hold"),
        ({"dims": {"rot_dim": 3}}, "'rot_dim % 2 == 0' does not hold"),
        ({"dims": {"block_size": 24}}, "steps of 16"),
        ({"types": {}}, "must give I"),
        ({"types": {"I": "uint8"}}, "no combination"),
        ({"types": {"I": "int32"}, "dtype": "float32"}, "no combination"),
        ({"absent": ("key",)}, "may be absent"),
        ({"pads": {"key": (1,)}}, "pads of key: give one for each of its 2 free strides"),
        ({"pads": {"key": (1, -1)}}, "0 or more"),
        ({"scalars": {"causal": 2.0}}, "outside its range"),
    ],
)
def test_what_lies_outside_is_refused(task: Task, change: dict[str, object], why: str) -> None:
    case = task.check[0]
    dims = change.pop("dims", {})
    assert isinstance(dims, dict)
    changed = Case.model_validate({**case.model_dump(), **change, "dims": {**case.dims, **dims}})
    with pytest.raises(ValueError, match=why):
        task.require_legal(changed)


def test_extents_next_to_one() -> None:
    of_values, in_steps = (
        Dim.model_validate({"values": [16, 8, 64]}),
        Dim(min=3, max=99, multiple_of=4),
    )
    assert [of_values.nearest(e, "int8") for e in (1, 8, 20, 999)] == [8, 8, 16, 64]
    assert [of_values.above(e, "int8") for e in (1, 8, 20, 999)] == [8, 8, 64, 64]
    assert [in_steps.nearest(e, "int8") for e in (1, 7, 8, 999)] == [4, 4, 8, 96]
    assert [in_steps.above(e, "int8") for e in (1, 7, 8, 999)] == [4, 8, 8, 96]


def test_the_smallest_result_is_one_whose_errors_are_measured(task: Task) -> None:
    """A count beside long results is exact, whatever its size."""
    case = task.check[2]
    cache = next(arg for arg in task.args if arg.written)
    size = math.prod(cache.shape_of(case))
    count = cache.model_copy(
        update={"name": "count", "dtype": "int32", "shape": ("1",), "strides": None}
    )
    both = task.model_copy(update={"args": (*task.args, count)})
    assert task.least_results(case) == both.least_results(case) == size
    counts = task.model_copy(update={"args": (count,)})
    assert counts.least_results(case) == MAX_BYTES


def test_float32_is_what_all_floats_are(task: Task) -> None:
    """Float32 beside 16 bits or 8 leaves the kernel its tensor cores."""
    half, single, _ = task.check
    assert task.is_float32(single) and not task.is_float32(half)
    integers = task.model_copy(update={"args": (task.args[2],)})
    assert not integers.is_float32(half)


def test_planted_numbers_are_legal_in_their_argument(tmp_path: Path) -> None:
    task = load_task(write_contract(tmp_path / "task"))
    case = task.check[0]

    def with_planted(**numbers: tuple[float, ...]) -> Case:
        return case.model_copy(update={"planted": numbers})

    for legal in ({"key": (9e3, -2.5)}, {"bias": (7.5,)}, {"slot": (0.0, 31.0)}):
        task.require_legal(with_planted(**legal))
    for name, number in (("key", 2e4), ("bias", 8.5), ("slot", 32.0), ("slot", 1.5)):
        with pytest.raises(ValueError, match="is not a valid value"):
            task.require_legal(with_planted(**{name: (number,)}))
    for name in ("scratch", "nothing"):
        with pytest.raises(ValueError, match="floats and indices that the kernel reads"):
            task.require_legal(with_planted(**{name: (1.0,)}))


def test_a_case_gives_no_special_values_to_a_finite_argument(tmp_path: Path) -> None:
    task = load_task(
        write_contract(tmp_path / "task", ("largest = 1e4", 'largest = 1e4, values = "finite"'))
    )
    case = task.check[0].model_copy(update={"families": {"key": "special"}})
    with pytest.raises(ValueError, match="key has only finite values, so it cannot have"):
        task.require_legal(case)
    task.require_legal(case.model_copy(update={"families": {"key": "large"}}))


def test_lengths_reach_up_to_the_extent_of_a_row(tmp_path: Path) -> None:
    slots = (
        'below = "blocks * block_size", kind = "slots", none = -1, table = "cache", table_axes = 2'
    )
    lengths = 'below = "{}", kind = "lengths", table = "cache", table_axes = 1'
    write_contract(tmp_path / "task", (slots, lengths.format("block_size + 1")))
    assert load_task(tmp_path / "task").args[2].index is not None
    write_contract(tmp_path / "task", (slots, lengths.format("block_size + 2")))
    with pytest.raises(BadInput, match="cache has rows of 16 entries"):
        load_task(tmp_path / "task")
