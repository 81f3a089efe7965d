"""Arguments spread into blocks and taken out again: no element is lost, and what a kernel changes
shows at the argument that it belongs to."""

from __future__ import annotations

import numpy as np
import pytest

from astra_chat.tools.case import Packed
from astra_chat.tools.task.block_images import allocations, images, loose, own_buffer, own_mask
from astra_chat.tools.task.buffer_layout import Bytes, changed_between, gathered, spread
from astra_chat.tools.task.folder import Task, find_task
from astra_chat.tools.task.groups import Group
from astra_chat.tools.task.placement import layout, packed_pads
from astra_chat.tools.types import Case

PATTERN = 0x7FA5
ROTARY = find_task("rotary_embedding")
CASE = Case(
    dims={"tokens": 3, "heads": 2, "kv_heads": 1, "head_size": 8, "rot_dim": 8, "max_position": 9},
    dtype="bfloat16",
)
QUERY, KEY = 1, 2


def contents(task: Task, case: Case) -> list[Bytes]:
    draw = np.random.default_rng(3)
    drawn = [draw.integers(0, 256, arg.bytes_of(case), np.uint8) for arg in task.args]
    return [spread(a, case, c, PATTERN) for a, c in zip(task.args, drawn, strict=True)]


def placed(how: Packed) -> Case:
    case = CASE.model_copy(update={"packed": how})
    return packed_pads(ROTARY, case, [8]) if how == "rows" else case


@pytest.mark.parametrize("how", ["apart", "rows", "tensors", "neighbours"])
def test_what_is_spread_is_taken_out_again(how: Packed) -> None:
    case = placed(how)
    lies, alone = layout(ROTARY, case), contents(ROTARY, case)
    made = images(lies, alone, PATTERN)
    assert [len(image) for image in made] == [block.bytes for block in lies.blocks]
    for index, content in enumerate(alone):
        assert np.array_equal(own_buffer(lies, index, made, made, PATTERN), content)


def test_an_element_of_another_is_that_one_s() -> None:
    case = placed("rows")
    lies = layout(ROTARY, case)
    made = images(lies, contents(ROTARY, case), PATTERN)
    number, at = lies.places[KEY]
    after = [image.copy() for image in made]
    after[number][at] ^= 0xFF
    query, key = (own_buffer(lies, index, made, after, PATTERN) for index in (QUERY, KEY))
    assert not changed_between(ROTARY.args[QUERY], case, query, PATTERN).any()
    assert np.array_equal(query, own_buffer(lies, QUERY, made, made, PATTERN))
    assert key[0] == made[number][at] ^ 0xFF
    masks = [np.zeros(len(image), np.bool_) for image in made]
    masks[number][at] = True
    assert not own_mask(lies, QUERY, masks).any() and own_mask(lies, KEY, masks).sum() == 1


def test_what_belongs_to_none_shows_as_changed() -> None:
    case = placed("rows")
    lies = layout(ROTARY, case)
    made = images(lies, contents(ROTARY, case), PATTERN)
    number, at = lies.places[KEY]
    after = [image.copy() for image in made]
    after[number][at + 16] ^= 1  # where the value lies in a packed qkv
    for index in (QUERY, KEY):
        arg, own = ROTARY.args[index], own_buffer(lies, index, made, after, PATTERN)
        then = own_buffer(lies, index, made, made, PATTERN)
        assert changed_between(arg, case, own, PATTERN).sum() == 1
        assert np.array_equal(gathered(arg, case, own)[0], gathered(arg, case, then)[0])


def test_between_whole_tensors_lies_nothing() -> None:
    task = find_task("fused_add_rmsnorm")
    case = Case(dims={"tokens": 1, "h": 5}, dtype="float16", packed="tensors")
    lies = layout(task, case)
    number = lies.places[0][0]
    assert np.flatnonzero(loose(lies, number)).tolist() == [10, 11, 12, 13, 14, 15]
    names = {one.name: (one.start, one.stop) for one in allocations(lies)}
    assert names == {"input+residual": (0, 26), "weight": (0, 10)}


def test_neighbours_are_allocations_of_their_own() -> None:
    names = {one.name for one in allocations(layout(ROTARY, placed("neighbours")))}
    assert names == {arg.name for arg in ROTARY.args}


def test_a_view_ends_with_its_last_element() -> None:
    lies = layout(ROTARY, placed("rows"))
    (one,) = (one for one in allocations(lies) if "+" in one.name)
    assert one.name == "query+key" and one.stop == 2 * (2 * 32 + 16 + 8)


def test_in_place_the_input_is_there_first_and_the_output_after() -> None:
    task = find_task("rmsnorm")
    task = task.model_copy(update={"same": (Group(args=("input", "out")),)})
    case = Case(dims={"tokens": 2, "h": 4}, dtype="float16", packed="same")
    lies, alone = layout(task, case), contents(task, case)
    made = images(lies, alone, PATTERN)
    names = [arg.name for arg in task.args]
    out, given = names.index("out"), names.index("input")
    assert np.array_equal(made[lies.places[given][0]], alone[given])
    after = [image ^ 0xFF for image in made]
    assert np.array_equal(own_buffer(lies, given, made, after, PATTERN), alone[given])
    assert np.array_equal(own_buffer(lies, out, made, after, PATTERN), alone[given] ^ 0xFF)
