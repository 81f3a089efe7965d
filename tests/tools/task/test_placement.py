"""Where the arguments of a call lie."""

from __future__ import annotations

import pytest

from astra_chat.tools.case import Packed
from astra_chat.tools.plan.stand_ins import usual_buffers
from astra_chat.tools.task.case_text import case_text, read_case
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.groups import Group
from astra_chat.tools.task.placement import layout, packed_pads, then_of
from astra_chat.tools.task.spans import buffer_bytes
from astra_chat.tools.types import Case
from astra_vgpu.ground.errors import BadInput

ROTARY, ADD = find_task("rotary_embedding"), find_task("fused_add_rmsnorm")
LLAMA = ROTARY.bench[0][0]
"""One token, 32 and 8 heads of 128, with the strides of a packed qkv."""
SMALL = Case(
    dims={"tokens": 3, "heads": 2, "kv_heads": 1, "head_size": 8, "rot_dim": 8, "max_position": 9},
    dtype="bfloat16",
)
ROWS = Case(dims={"tokens": 5, "h": 9}, dtype="float16")


def places(case: Case) -> dict[str, tuple[int, int]]:
    lies = layout(ROTARY, case)
    return dict(zip((arg.name for arg in lies.args), lies.places, strict=True))


def lying(case: Case, how: Packed) -> Case:
    return case.model_copy(update={"packed": how})


def test_alone_by_default() -> None:
    lies = layout(ROTARY, SMALL.model_copy(update={"offset": 3}))
    assert [block.members for block in lies.blocks] == [(0,), (1,), (2,), (3,)]
    assert [block.shift for block in lies.blocks] == [24, 6, 6, 6]
    assert all(at == 0 for _, at in lies.places)


@pytest.mark.parametrize("name", ["rotary_embedding", "qk_rmsnorm_rope", "rope_and_kv_write"])
def test_timed_calls_of_a_packed_qkv_lie_in_one_buffer(name: str) -> None:
    task, seen = find_task(name), 0
    for case, _ in (*task.bench, *task.demo):
        names = [arg.name for arg in task.args]
        query, key = (layout(task, case).places[names.index(n)] for n in ("query", "key"))
        if query[0] == key[0]:
            seen += 1
            heads = case.dims["heads"] * case.dims.get("head_dim", case.dims.get("head_size", 0))
            assert (query[1], key[1]) == (0, 2 * heads)
    others = sum(
        isinstance(c.pads["key"], tuple) and c.pads["key"][0] == 512 and c.dims["kv_heads"] == 1
        for c, _ in task.bench
    )
    assert seen == len(task.bench) + len(task.demo) - (others if name == "rotary_embedding" else 0)


def test_strides_of_a_packed_buffer_may_lie_apart_if_a_case_says_so() -> None:
    assert places(LLAMA)["key"] == (1, 32 * 128 * 2)
    assert places(lying(LLAMA, "apart"))["key"][1] == 0


def test_rows_beside_each_other_with_what_follows() -> None:
    then = then_of(ROTARY, ROTARY.packed[0], SMALL)
    case = packed_pads(ROTARY, SMALL, [then])
    ROTARY.require_legal(case)
    assert then == 8 and case.packed == "rows"
    strides = {arg.name: arg.strides_of(case)[0] for arg in ROTARY.args if arg.strided}
    assert strides == {"query": 32, "key": 32}
    buffers = usual_buffers(ROTARY, case)
    key = next(a for a in buffers.arguments if a.name == "key")
    query = next(a for a in buffers.arguments if a.name == "query")
    assert key.buffer == query.buffer and key.offset - query.offset == 2 * 16
    assert buffers.buffers[key.buffer or 0].bytes >= key.offset + key.bytes


def test_tensors_one_behind_the_other() -> None:
    case = lying(SMALL, "tensors")
    ROTARY.require_legal(case)
    assert places(case)["key"] == (places(case)["query"][0], 3 * 2 * 8 * 2)


def test_absent_arguments_take_no_room() -> None:
    case = LLAMA.model_copy(update={"absent": ("key",)})
    lies = layout(ROTARY, case)
    assert all(len(block.members) == 1 for block in lies.blocks)
    with pytest.raises(ValueError, match="fewer than two of the arguments"):
        ROTARY.require_legal(lying(case, "tensors"))


def test_neighbours_begin_where_the_next_allocation_may() -> None:
    task, orders = find_task("moe_sum_reduce"), set[tuple[int, ...]]()
    for case in task.check:
        lies = layout(task, lying(case.model_copy(update={"offset": 0}), "neighbours"))
        together = [block for block in lies.blocks if len(block.members) > 1]
        for block in together:
            assert not block.one
            starts = [lies.places[index][1] for index in block.members]
            sizes = [buffer_bytes(task.args[index], case) for index in block.members]
            ends = [start + size for start, size in zip(starts, sizes, strict=True)]
            assert all(0 <= b - a < 512 for a, b in zip(ends[:-1], starts[1:], strict=True))
            assert all(start % 512 == 0 for start in starts)
            orders.add(block.members)
    assert len(orders) > 1


def test_the_seed_does_not_move_arguments() -> None:
    one = lying(SMALL, "neighbours")
    assert layout(ROTARY, one).places == layout(ROTARY, one.model_copy(update={"seed": 5})).places


@pytest.mark.parametrize(
    ("how", "what"),
    [
        ("rows", "equal strides from row to row, of at least 24 elements: query 16, key 8"),
        ("same", "requires a contract that lists arguments as same"),
    ],
)
def test_what_cannot_lie_so_is_refused(how: Packed, what: str) -> None:
    with pytest.raises(ValueError, match=what):
        ROTARY.require_legal(lying(SMALL, how))


def test_a_typed_case_is_read_or_refused_in_one_line() -> None:
    dims = ", ".join(f"{name} = {extent}" for name, extent in SMALL.dims.items())
    case = read_case(ROTARY, f'{{ {dims}, dtype = "bfloat16", packed = true }}')
    assert case == packed_pads(ROTARY, SMALL, [8])
    assert read_case(ROTARY, case_text(case)) == case and 'packed = "rows"' in case_text(case)
    assert case.label.endswith("packed")
    text = '{ tokens = 3, d = 24, dtype = "float16", packed = true }'
    with pytest.raises(BadInput, match="lists arguments as packed; this one lists none") as error:
        read_case(find_task("silu_and_mul"), text)
    assert "\n" not in str(error.value)
    with pytest.raises(BadInput, match="rows, tensors"):
        read_case(ROTARY, f'{{ {dims}, dtype = "bfloat16", packed = "interleaved" }}')
    assert read_case(ROTARY, f'{{ {dims}, dtype = "bfloat16", packed = false }}').packed == "apart"


def test_a_case_without_it_reads_and_hashes_as_before() -> None:
    assert "packed" not in SMALL.model_dump_json()
    assert Case.model_validate_json(SMALL.model_dump_json()) == SMALL


def test_one_pointer_for_two_arguments() -> None:
    task = find_task("rmsnorm")
    task = task.model_copy(update={"same": (Group(args=("input", "out")),)})
    case = lying(ROWS, "same")
    task.require_legal(case)
    assert layout(task, case).places[0] == layout(task, case).places[1]
    with pytest.raises(ValueError, match="equal strides"):
        task.require_legal(case.model_copy(update={"pads": {"out": 3}}))
