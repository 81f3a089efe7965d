"""Pairs of a problem and a candidate out of a set's folder, which the user fetched.

The simple layout: FOLDER/NAME/problem.py and candidate.py, and claim.json where its authors say
something: {"eager": 1.9, "compile": 1.2, "source": "..."}, times faster. Two published forms are
read as they are: CUDA-L1's files of JSON lines, and a checkout of robust-kbench.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from astra_vgpu.ground.errors import BadInput

CUDA_L1 = {
    "score_default": "eager",
    "score_torch_compile_default": "compile",
    "score_cuda_graph": "eager graph",
}
LOADER = """

from torch.utils.cpp_extension import load_inline as _load_inline

_kernel = _load_inline("published", [""], [{source!r}], extra_cuda_cflags=["-O3"])


class ModelNew(Model):
    def forward(self, *inputs):
        return super().forward(*inputs, fn=_kernel.forward)
"""


@dataclass(frozen=True)
class PublishedPair:
    """A problem and somebody's candidate for it."""

    name: str
    problem: str
    candidate: str
    claim: dict[str, Any] = field(default_factory=dict)
    """Times faster than eager, compile or a graph, by its authors, and where they say so."""
    left_out: str = ""
    """Why it cannot be judged."""


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
            f"{folder}: no NAME/problem.py with candidate.py, no .json of CUDA-L1, no highlighted/"
        )
    return found


def _of(folder: Path) -> Iterator[PublishedPair]:
    if folder.is_file():
        yield from _cuda_l1(folder)
    elif (folder / "highlighted").is_dir():
        yield from _robust_kbench(folder)
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


def _robust_kbench(folder: Path) -> Iterator[PublishedPair]:
    """Kernels whose `forward` takes the place of the module's function."""
    claims = _robust_claims(folder / "highlighted" / "results.csv")
    for kernel in sorted(folder.glob("highlighted/*/*/kernel.cu")):
        task, way = kernel.parts[-3:-1]
        name = f"{task}-{way}"
        problem = folder / "tasks" / task / "func_forward.py"
        if way != "forward" or not problem.is_file():
            why = "a backward pass: it is no module in this form"
            yield PublishedPair(name, "", "", claims.get((task, way), {}), why)
            continue
        config = json.loads((problem.parent / "config_forward.json").read_text())
        shared, inputs, init = (
            (config.get(f"single_{kind}_configs") or [{}])[0]
            for kind in ("shared", "input", "init")
        )
        text = problem.read_text() + (
            f"\n_get_inputs = get_inputs\n\n\ndef get_inputs():\n"
            f"    return _get_inputs(**{inputs | shared!r})\n\n\n"
            f"def get_init_inputs():\n    return {init | shared!r}\n"
        )
        loaded = text + LOADER.format(source=kernel.read_text())
        yield PublishedPair(name, text, loaded, claims.get((task, way), {}))


def _robust_claims(path: Path) -> dict[tuple[str, str], dict[str, Any]]:
    """Claims by task and direction."""
    if not path.is_file():
        return {}
    csv.field_size_limit(sys.maxsize)
    found = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if place := re.search(r"/(\w+)/(forward|backward)/", row["CUDA Filename"]):
                found[place[1], place[2]] = {
                    "eager": float(row["Speedup"]),
                    "compile": float(row["Speedup Compile"]),
                    "source": "highlighted/results.csv",
                }
    return found
