"""kernelbench.com's H100 deck as pairs: a checkout of Infatoshi/kernelbench.com.

A solution there is a `class Model` of the reference's arguments, called at several sizes, whose
result the authors compare within a tolerance of the problem, also with inputs scaled down and up.
The pairs ask the same of it: the sizes, scales and tolerances are those of the authors' check.
Only labelled solutions are pairs: all labels are in public/data/rundetail/h100.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from lab.rejudge.published import PublishedPair

RUNS, DETAILS = Path("public/runs/h100"), Path("public/data/rundetail/h100")
PROBLEMS = Path("benchmarks/hard/problems-h100")
SCALES = {
    "01_fp8_gemm": ((0,), 1e-3, 64.0),
    "02_kda_cutlass": ((0, 1, 2), 1e-2, 2.0),
    "03_paged_attention": ((0, 1), 1e-2, 8.0),
    "05_topk_bitonic": ((0,), 1e-4, 1e3),
    "06_sonic_moe_swiglu": ((0,), 1e-2, 8.0),
    "07_w4a16_gemm": ((0,), 1e-3, 64.0),
}
"""Inputs that are scaled, and by what: benchmarks/hard/src/eval/numeric_stress.py there."""
FIRST = {"06_sonic_moe_swiglu": 1}
"""The only size of a problem whose others have 2 GB and more of inputs and weights."""
HOOKS = """

SIZES = {sizes!r}
TOLERANCE = {tolerance!r}


def use_size(size):
    own = globals()
    own.update({{key if key in own else key.upper(): value for key, value in size.items()}})


def get_other_values(inputs):
    for scale in {scales!r}:
        yield f"{{scale:g}} times as large", [
            (v.float() * scale).to(v.dtype) if n in {places!r} else v for n, v in enumerate(inputs)
        ]


use_size({first!r})
"""
BESIDE = """
import os as _os, pathlib as _pathlib, sys as _sys
_cutlass = _pathlib.Path(__file__).with_name("cutlass")
if _cutlass.exists():
    _os.environ.update(CUTLASS_ROOT=str(_cutlass), CUTLASS_INCLUDE=str(_cutlass / "include"))
for _name, _text in ({files!r}).items():
    _pathlib.Path(__file__).with_name(_name).write_text(_text)
_sys.path.insert(0, str(_pathlib.Path(__file__).parent))
"""
"""Files that a solution finds beside it there."""
SIDECAR = re.compile(r"^# =+\n# =+ sidecar: (\S+) \(.*\) =+\n# =+\n", re.M)
"""How the published text of a solution marks its further files."""
FIXED_SEED = re.compile(r"(?<=def get_inputs\(\):)(.*?)^ *torch\.manual_seed\(0\)\n", re.M | re.S)
"""A problem whose inputs are always the same gets others by our seed."""


def labelled(folder: Path, label: str = "clean") -> Iterator[PublishedPair]:
    """Yields pairs of solutions with a label; others of the deck's problems are no pairs.

    Raises:
        OSError, ValueError, KeyError: it is no checkout of that repository.
    """
    for path in sorted((folder / DETAILS).glob("*.json")):
        said = json.loads(path.read_text())
        if said.get("annotation_verdict") == label and said["problem"] in SCALES:
            yield _pair(folder, path.stem, said)


def _pair(folder: Path, run: str, said: dict[str, Any]) -> PublishedPair:
    problem = said["problem"]
    own = folder / PROBLEMS / problem
    reference, shapes = ((own / f"{name}.py").read_text() for name in ("reference", "shapes"))
    sizes = _sizes(shapes)
    first = sizes.pop(FIRST.get(problem, 0))
    sizes = [] if problem in FIRST else sizes
    places, *scales = SCALES[problem]
    hooks = HOOKS.format(
        sizes=sizes, first=first, places=places, scales=scales, tolerance=_tolerance(own)
    )
    code, *more = SIDECAR.split((folder / RUNS / f"{run}_solution.py.txt").read_text())
    files = dict(zip(more[::2], more[1::2], strict=True))
    files |= {"reference.py": reference, "shapes.py": shapes}
    future = re.compile(r"^from __future__ import .*\n", re.M)
    head = "".join(future.findall(code)) + BESIDE.format(files=files)
    times = {f"{one['label']}": one["ms"] for one in said.get("shapes", ()) if one.get("ms")}
    timed = list(times.values())[FIRST.get(problem, 0) :][:1]
    claim = {"ms": timed[0], "source": f"{DETAILS}/{run}.json, H100 PCIe"} if timed else {}
    return PublishedPair(
        run,
        FIXED_SEED.sub(r"\1", reference) + hooks,
        f"{head}{future.sub('', code)}\n\nModelNew = Model\n",
        claim,
    )


def _sizes(text: str) -> list[dict[str, Any]]:
    """What the file calls SHAPES."""
    for one in ast.parse(text).body:
        if isinstance(one, ast.Assign) and getattr(one.targets[0], "id", "") == "SHAPES":
            found: list[dict[str, Any]] = ast.literal_eval(one.value)
            return found
    raise ValueError("shapes.py has no SHAPES")


def _tolerance(own: Path) -> float:
    """The largest number under `tolerance:` in problem.yaml."""
    block = re.search(r"^tolerance:\n((?: +.*\n)+)", (own / "problem.yaml").read_text(), re.M)
    numbers = re.findall(r":\s*([\d.e-]+)", block[1]) if block else []
    return max(map(float, numbers), default=0.0)
