"""What lies in the buffers of timed launches. No GPU is needed to look at it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import torch

from astra_chat.tools.children.cuda_buffers import estranged
from astra_chat.tools.run.protocol import CallRequest
from astra_chat.tools.task.buffer_layout import spread
from astra_chat.tools.task.folder import find_task
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
