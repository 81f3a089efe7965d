"""Pairs of a problem and a candidate out of a set's folder, which the user fetched.

The simple layout: FOLDER/NAME/problem.py and candidate.py, and claim.json where its authors say
something: {"eager": 1.9, "compile": 1.2, "source": "..."}, times faster. Three published forms are
read as they are: CUDA-L1's files of JSON lines, and checkouts of robust-kbench and of
kernelbench.com.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

from astra_vgpu.ground.errors import BadInput
from lab.rejudge.kernelbench_com import DETAILS, labelled
from lab.rejudge.published import PublishedPair
from lab.rejudge.robust_kbench import highlighted

CUDA_L1 = {
    "score_default": "eager",
    "score_torch_compile_default": "compile",
    "score_cuda_graph": "eager graph",
}


def pairs(folder: Path) -> list[PublishedPair]:
    """All pairs of a set, in the order of their names. Raises BadInput."""
    if not folder.exists():
        raise BadInput(f"{folder}: there is no such folder or file")
    try:
        found = list(_of(folder))
    except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadInput(f"{folder}: {type(error).__name__}: {error}") from None
    if not found:
        raise BadInput(
            f"{folder}: no NAME/problem.py with candidate.py, no .json of CUDA-L1, no"
            f" highlighted/, no {DETAILS}/"
        )
    return found


def _of(folder: Path) -> Iterator[PublishedPair]:
    if folder.is_file():
        yield from _cuda_l1(folder)
    elif (folder / "highlighted").is_dir():
        yield from highlighted(folder)
    elif (folder / DETAILS).is_dir():
        yield from labelled(folder)
    else:
        for problem in sorted(folder.glob("*/problem.py")):
            own = problem.parent
            claim = own / "claim.json"
            yield PublishedPair(
                own.name,
                problem.read_text(),
                (own / "candidate.py").read_text(),
                json.loads(claim.read_text()) if claim.is_file() else {},
            )
        for path in sorted(folder.glob("*.json")):
            yield from _cuda_l1(path)


def _cuda_l1(path: Path) -> Iterator[PublishedPair]:
    """A line for each problem of KernelBench; entries without code are left out with a reason."""
    for line in filter(None, path.read_text().splitlines()):
        one = json.loads(line)
        claim = {ours: one[theirs] for theirs, ours in CUDA_L1.items() if one.get(theirs)}
        code = one["custom_code"] or ""
        code = code if "ModelNew" in code else ""
        yield PublishedPair(
            f"{path.stem}-{one['level_id']}-{one['task_id']}",
            one["ref_code"],
            code,
            {**claim, "source": path.name} if claim else {},
            "" if code else "its entry has no ModelNew",
        )
