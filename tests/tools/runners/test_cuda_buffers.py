"""What lies in the buffers of timed launches. No GPU is needed to look at it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch

from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.runners.cuda_buffers import estranged, turned_away
from astra_chat.tools.task.buffer_layout import gathered, spread
from astra_chat.tools.task.folder import Arg, find_task
from astra_chat.tools.types import Case

TASK = find_task("fused_add_rmsnorm")
INPUT = TASK.args[0]


def test_every_row_of_another_set_differs_a_little() -> None:
    case = Case(dims={"tokens": 7, "h": 9000}, dtype="float16", pads={INPUT.name: 8})
    call = CallRequest(case=case, inputs=Path(), after=Path())
    values = np.arange(7 * 9000, dtype=np.uint16)
    content = torch.from_numpy(spread(INPUT, case, values.view(np.uint8), 0xFFFF))
    filled = torch.empty((5, 256 * (len(content) // 256 + 2)), dtype=torch.uint8)
    filled[:] = 0xFF
    filled[:, : len(content)] = content
    before = filled.clone()
    estranged(INPUT, call, filled, [0, 2, 4], 1)
    assert torch.equal(filled[[1, 3]], before[[1, 3]])
    for which in (0, 2, 4):
        now, then = (
            t[which, : len(content)].view(torch.int16).reshape(7, -1) for t in (filled, before)
        )
        changed = (now != then).sum(dim=1)
        assert ((changed > 0) & (changed <= 3)).all(), changed
        assert (now[:, 9000:] == -1).all() and (now[:, :9000] != -1).all()
        assert torch.equal(filled[which, len(content) :], before[which, len(content) :])
    assert not torch.equal(filled[0], filled[2])


def index_arg(kind: str | None, shape: tuple[str, ...] = ("n",)) -> Arg:
    index = {"index": {"below": 1000, "kind": kind}} if kind else {}
    fields = {"name": "i", "dtype": "int64", "shape": shape, "access": "read", **index}
    return Arg.model_validate(fields)


@pytest.mark.parametrize(
    ("kind", "moves", "changes"),
    [
        ("any", True, True),
        ("slots", True, False),
        ("permutation", True, False),
        ("sorted", False, False),
        ("positions", False, False),
        (None, False, False),
    ],
)
def test_integers_of_another_set_stay_legal(kind: str | None, moves: bool, changes: bool) -> None:
    case = Case(dims={"n": 100}, dtype="float16")
    call = CallRequest(case=case, inputs=Path(), after=Path())
    numbers = torch.arange(100, dtype=torch.int64) * 7
    filled = torch.zeros((3, 1024), dtype=torch.uint8)
    filled[:, :800] = numbers.view(torch.uint8)
    arg = index_arg(kind)
    turned = filled[1].clone()
    turned_away(arg, call, filled[0, :800].clone(), 0.5, turned)
    moved = turned[:800].view(torch.int64)
    assert (moved.tolist() != numbers.tolist()) == moves
    assert sorted(moved.tolist()) == numbers.tolist()
    estranged(arg, call, filled, [1], 3)
    now = filled[1, :800].view(torch.int64)
    assert bool((now != numbers).any()) == changes
    assert set(now.tolist()) <= set(numbers.tolist())
    assert torch.equal(filled[0], filled[2])


def test_heads_that_lie_apart_change_in_every_row() -> None:
    arg = Arg(
        name="q", dtype="T", shape=("n", "h", "d"), access="read", strides=("free", "free", "1")
    )
    case = Case(dims={"n": 4, "h": 3, "d": 64}, dtype="float16", pads={"q": (10, 6)})
    call = CallRequest(case=case, inputs=Path(), after=Path())
    values = np.arange(4 * 3 * 64, dtype=np.uint16)
    content = torch.from_numpy(spread(arg, case, values.view(np.uint8), 0xFFFF))
    filled = content.repeat(2, 1)
    estranged(arg, call, filled, [1], 5)
    now = gathered(arg, case, filled[1].numpy())[0].view(np.uint16).reshape(12, 64)
    rows = (now != values.reshape(12, 64)).sum(axis=1)
    assert set(rows.tolist()) <= {0, 1} and rows.sum() >= 10
    turned_away(arg, call, content, 0.3, filled[0])
    turned = gathered(arg, case, filled[0].numpy())[0].view(np.uint16)
    assert sorted(turned.tolist()) == values.tolist() and turned[0] != 0
    between = gathered(arg, case, filled[0].numpy())[1]
    assert (between == 0xFF).all()


def test_an_absent_argument_has_nothing_to_change() -> None:
    arg = Arg(name="bias", dtype="T", shape=("n", "d"), access="read", optional=True)
    case = Case(dims={"n": 4, "d": 64}, dtype="float16", absent=("bias",))
    call = CallRequest(case=case, inputs=Path(), after=Path())
    filled = torch.full((3, 1024), 7, dtype=torch.uint8)
    turned_away(arg, call, filled[0, :0], 0.5, filled[1])
    estranged(arg, call, filled, [1, 2], 5)
    assert (filled == 7).all()
