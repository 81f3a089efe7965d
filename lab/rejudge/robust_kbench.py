"""robust-kbench's highlighted kernels as pairs: a checkout of SakanaAI/robust-kbench.

A forward kernel takes the place of the module's function. A backward kernel is called as the set
does, by its AutogradFunction; its problem is a module that gives the gradients of the forward
function by autograd. That module runs the forward function, too, so its times are no fair baseline
where the kernel needs nothing of it: the row says so.
"""

from __future__ import annotations

import csv
import json
import re
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from lab.rejudge.published import PublishedPair

LOADED = """

import os as _os, tempfile as _tempfile
from torch.utils.cpp_extension import load as _load

_file = _os.path.join(_tempfile.gettempdir(), "published.cu")
with open(_file, "w") as _text:
    _text.write({source!r})
_kernel = _load("published", [_file], extra_cuda_cflags=["-O3", "--use_fast_math"])
"""
"""Compiled as the set does, but for its flags of a debugger."""
FORWARD = """

class ModelNew(Model):
    def forward(self, *inputs):
        return super().forward(*inputs, fn=_kernel.forward)
"""
INPUTS = """
_get_inputs, _sizes = get_inputs, [{sizes!r}]


def get_inputs():
    return [v.detach() if hasattr(v, "detach") else v for v in _get_inputs(**_sizes[0][0])]


def get_init_inputs():
    return _sizes[0][1]


SIZES = {others!r}


def use_size(size):
    _sizes[0] = size
"""
GRADIENTS = """
_forward, _own_inputs = Model.forward, get_inputs


def _gradients(grad):
    def of(*given):
        leaves = [v.detach().requires_grad_(v.is_floating_point()) for v in given]
        with torch.enable_grad():
            result = forward_fn(*leaves)
        return torch.autograd.grad(result, [v for v in leaves if v.requires_grad], grad)

    return of


def _backward(self, grad, *inputs):
    return _forward(self, *inputs, fn=_gradients(grad))


def get_inputs():
    inputs = _own_inputs()
    with torch.no_grad():
        result = _forward(Model(**get_init_inputs()), *inputs)
    return [torch.randn_like(result), *inputs]


Model.forward = _backward
"""
BACKWARD = """

class _Saved:
    pass


def _published(grad):
    def of(*given):
        saved = _Saved()
        saved.saved_tensors = given
        AutogradFunction.backward_fn = _kernel.backward
        found = AutogradFunction.backward(saved, grad)
        found = found if isinstance(found, (tuple, list)) else (found,)
        return tuple(v for v in found if v is not None)

    return of


class ModelNew(Model):
    def forward(self, grad, *inputs):
        return _forward(self, *inputs, fn=_published(grad))
"""
NOTE = "baselines run the forward pass, too"
CLAIMS = "highlighted/results.csv"


def highlighted(folder: Path) -> Iterator[PublishedPair]:
    """Yields the pairs, and one more for each kernel of results.csv whose text is another one.

    Raises:
        OSError, ValueError, KeyError: it is no checkout of that repository.
    """
    claims = _claims(folder / CLAIMS)
    for kernel in sorted(folder.glob("highlighted/*/*/kernel.cu")):
        task, way = kernel.parts[-3:-1]
        claim, claimed = claims.get((task, way), ({}, ""))
        source = kernel.read_text()
        problem = folder / "tasks" / task / f"func_{way}.py"
        if not problem.is_file():
            why = f"its task has no {problem.name}"
            yield PublishedPair(f"{task}-{way}", "", "", claim, why)
            continue
        config = json.loads((problem.parent / f"config_{way}.json").read_text())
        text = problem.read_text() + INPUTS.format(
            sizes=_sizes(config, "single")[0], others=_sizes(config, "multi")
        )
        text += GRADIENTS if way == "backward" else ""
        other = claimed.strip() not in ("", source.strip())
        texts = [("", source, {} if other else claim)]
        if other:
            texts.append(("-claimed", claimed, claim))
        for suffix, code, said in texts:
            loaded = text + LOADED.format(source=code)
            yield PublishedPair(
                f"{task}-{way}{suffix}",
                text,
                loaded + (BACKWARD if way == "backward" else FORWARD),
                said,
                notes=(NOTE,) if way == "backward" else (),
            )


def _sizes(config: dict[str, Any], kind: str) -> Sequence[tuple[dict[str, Any], dict[str, Any]]]:
    """Arguments of get_inputs and of the module, for each setting that the set checks."""
    shared, inputs, init = (
        config.get(f"{kind}_{part}_configs") or [{}] for part in ("shared", "input", "init")
    )
    count = max(map(len, (shared, inputs, init)))
    several = [[one[min(n, len(one) - 1)] for n in range(count)] for one in (shared, inputs, init)]
    return [(i | s, n | s) for s, i, n in zip(*several, strict=True)]


def _claims(path: Path) -> dict[tuple[str, str], tuple[dict[str, Any], str]]:
    """Claims by task and direction, each with the text of the kernel that it is about."""
    if not path.is_file():
        return {}
    csv.field_size_limit(sys.maxsize)
    found = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if place := re.search(r"/(\w+)/(forward|backward)/", row["CUDA Filename"]):
                claim = {
                    "eager": float(row["Speedup"]),
                    "compile": float(row["Speedup Compile"]),
                    "source": CLAIMS,
                }
                found[place[1], place[2]] = claim, row.get("Code") or ""
    return found
