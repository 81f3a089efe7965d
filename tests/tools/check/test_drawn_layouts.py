"""Layouts of drawn cases in which one argument alone is not aligned."""

from __future__ import annotations

import random

from astra_chat.tools.check.drawn_layouts import aligned_but, all_but_one_aligned
from astra_chat.tools.check.hidden_cases import draw_shared
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import ITEM_BYTES, Case

ROTARY = find_task("rotary_embedding")
DIMS = {
    "tokens": 4,
    "heads": 2,
    "kv_heads": 2,
    "head_size": 64,
    "rot_dim": 64,
    "max_position": 8,
}


def test_one_argument_alone_is_not_aligned() -> None:
    case, rng = Case(dims=DIMS, dtype="float16"), random.Random(0)
    for name, padded in all_but_one_aligned(ROTARY):
        drawn = aligned_but(ROTARY, case, name, padded, rng)
        ROTARY.require_legal(drawn)
        for arg in ROTARY.args:
            item = ITEM_BYTES[arg.dtype_of(drawn)]
            strides = [item * stride % 64 for stride in arg.free_strides_of(drawn)]
            assert bool(arg.shift_of(drawn)) == (arg.name == name and not padded)
            assert any(strides) == (arg.name == name and padded)


def test_over_the_drawn_cases_each_argument_is_the_one() -> None:
    alone = set[str]()
    for seed in range(3):
        for case in draw_shared(ROTARY, random.Random(seed)):
            apart = [name for name, offset in case.offsets.items() if offset]
            if len(apart) == 1 and len(case.offsets) == 1:
                assert apart[0] not in case.absent
                alone |= {apart[0]}
    assert alone == {arg.name for arg in ROTARY.args}
