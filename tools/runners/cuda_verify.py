"""The results of all timed sets, compared on the device with what the baseline makes of the same
inputs, after the candidate's last launch.

What differs by more than twice the tolerance, or at all where there is none, is handed to the judge
with its inputs, and the oracle decides. The oracle also sees a drawn part of the sets with the
baseline's results on them: the baseline is what all others were compared with.
"""

from __future__ import annotations

import math
import random
from pathlib import Path

import torch

from astra_chat.tools.run.protocol import CallRequest, CaseReport, FetchedSet
from astra_chat.tools.runners.cuda_buffers import BufferSets, Kept
from astra_chat.tools.runners.cuda_compare import elements, shares_of
from astra_chat.tools.task.buffer_layout import gathered
from astra_chat.tools.task.folder import Task

DRAWN_SHARE = 0.05
"""Share of the sets that the oracle sees in any case, the one with the case's own inputs among
them."""
MAX_DOUBTFUL, DOUBTFUL_BYTES = 64, 512 * 2**20
"""Most sets, and most bytes of their arguments, that are handed over because they differ, the worst
first; at least one set."""


def verified(task: Task, call: CallRequest, sets: BufferSets, draws: random.Random) -> CaseReport:
    """What was compared; results for the judge are in files. Call it when `sets` hold what the
    baseline made of their inputs."""
    shares = {
        (kept.mode, which): share
        for kept in sets.kept
        for which, share in zip(kept.sets, _worst(task, call, sets, kept), strict=True)
    }
    doubtful = [key for key, share in shares.items() if share > 1]
    draws.shuffle(doubtful)
    doubtful.sort(key=lambda key: -shares[key])
    others = [which for which in range(sets.count) if which != sets.own]
    drawn = {sets.own, *draws.sample(others, math.ceil(DRAWN_SHARE * sets.count) - 1)}
    chosen = [
        FetchedSet(mode="cold", number=which, own=which == sets.own, baseline=True)
        for which in sorted(drawn, key=lambda which: which != sets.own)
    ]
    chosen += [
        FetchedSet(mode=mode, number=which, own=which == sets.own)
        for mode, which in doubtful[: _most_doubtful(sets)]
        if mode != "cold" or which not in drawn
    ]
    for fetched in chosen:
        _hand_back(task, call, sets, fetched)
    return CaseReport(
        sets=tuple(chosen),
        compared=len(shares),
        doubtful=len(doubtful),
        touched=tuple(sorted(sets.touched)),
    )


def _worst(task: Task, call: CallRequest, sets: BufferSets, kept: Kept) -> list[float]:
    """Returns how far the results of each kept set are apart at most, over all written
    arguments."""
    worst = torch.zeros(len(kept.sets), device="cuda")
    for arg in task.args:
        if arg.written and arg.bytes_of(call.case):
            got, beside = (
                elements(arg, call.case, buffers)
                for buffers in (kept.results[arg.name], sets.results[arg.name])
            )
            shares = shares_of(task, arg, call.case, got, beside, kept.sets)
            torch.maximum(worst, shares, out=worst)
    return [float(share) for share in worst.tolist()]


def _most_doubtful(sets: BufferSets) -> int:
    return max(1, min(MAX_DOUBTFUL, DOUBTFUL_BYTES // sets.bytes_each))


def _hand_back(task: Task, call: CallRequest, sets: BufferSets, fetched: FetchedSet) -> None:
    """Write the results of one set and, unless they are the case's own, its inputs."""
    folder = call.after / fetched.folder
    (folder / "baseline").mkdir(parents=True)
    kept = next(kept for kept in sets.kept if kept.mode == fetched.mode)
    place = kept.sets.index(fetched.number)
    for index, arg in enumerate(task.args):
        if arg.written:
            size = sets.sizes[index]
            results = kept.results[arg.name][place, :size]
            _write(sets, index, results, folder / f"{arg.name}.after")
            if fetched.baseline:
                beside = sets.results[arg.name][fetched.number, :size]
                _write(sets, index, beside, folder / "baseline" / f"{arg.name}.after")
        if arg.read and not fetched.own:
            buffer = sets.inputs(fetched.number)[arg.name].cpu().numpy()
            gathered(arg, call.case, buffer)[0].tofile(folder / f"{arg.name}.in")


def _write(sets: BufferSets, index: int, values: torch.Tensor, path: Path) -> None:
    sets.alone(index, values.cpu().numpy()).tofile(path)
