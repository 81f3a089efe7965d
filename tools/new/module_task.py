"""task.toml of a PyTorch module, as text."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from astra_chat.tools.new.module_baseline import SCRATCH, PlainKernels
from astra_chat.tools.task.expressions import evaluate, holds
from astra_chat.tools.types import ITEM_BYTES

FAMILIES = ("ramp", "one_hot", "heavy_tail")
DEMO_BYTES = 2**20
"""Cases for the virtual GPU are at most about this large, where the dims allow it."""
LARGEST = 128
FLAGS = ["-O3", "-std=c++17"]
SPEED = """\
# Candidates are compared with baseline.cu (measured on a GPU, estimated on the virtual one). Its
# plain kernels were written by Astra from the module's operators; PyTorch runs other ones, so no
# verdict here is a comparison with PyTorch. On a GPU, `astra-chat torch` times a candidate against
# eager and torch.compile, also replayed as CUDA graphs."""
ITEMS: dict[str, int] = {str(name): size for name, size in ITEM_BYTES.items()}


def module_toml(
    name: str,
    entry: str,
    contract: Mapping[str, Any],
    results: Sequence[str],
    reference: str,
    file: str,
    kernels: PlainKernels,
) -> str:
    """The contract; nothing in it is left open."""
    tf32 = contract["tensor_float32"]
    summary = contract["summary"] or f"the PyTorch module of {file}"
    lines = [
        f"# Contract of {name}, from the PyTorch module in {file}.",
        *SPEED.splitlines(),
        "schema = 2",
        f'name = "{name}"',
        f"summary = {json.dumps(summary)}",
        f'entry = "{entry}"',
        f'reference = "{reference}"  # the module in float64, with weights as arguments',
        f'flops = "{kernels.flops or _largest_result(contract)}"',
        f"tensor_float32 = {json.dumps(tf32)}  # {_tf32(file, allowed=tf32)}",
        f"flags = {json.dumps(FLAGS)}",
        *([f"require = {json.dumps(contract['require'])}"] if contract["require"] else []),
        "args = [",
        *(f"    {{ {fields} }}," for fields in _args(contract, results, kernels.scratch_bytes)),
        "]",
        "",
        "check = [",
        *(f"    {row}," for row in _check_rows(contract)),
        "]",
        "# The sizes of get_inputs().",
        f"bench = [ {_row(contract['dims'], 'weight = 1')} ]",
        "# Timed on the virtual GPU unless --cases bench is given.",
        f"demo = [ {_row(_demo(contract))} ]",
        *_dims(contract),
        "",
        "# A few times PyTorch's own error relative to float64, or that of plain float32 sums.",
        "[tolerance]",
        *(
            f"{dtype} = {{ rtol = {rtol:g}, atol = {atol:g} }}"
            for dtype, (rtol, atol) in contract["tolerance"].items()
        ),
        "",
        "[provenance]",
        f"baseline = {json.dumps(f'plain kernels of the operators of {file}, by astra-chat new')}",
        "",
    ]
    return "\n".join(lines)


def _tf32(file: str, *, allowed: bool) -> str:
    if allowed:
        return f"{file} allows TF32 for float32 matrix products"
    return f"{file} does not allow TF32 for float32 matrix products"


def _args(contract: Mapping[str, Any], results: Sequence[str], scratch: str) -> Iterator[str]:
    for kind in ("inputs", "weights"):
        for name, arg in contract[kind].items():
            weight = ["weight = true"] if kind == "weights" else []
            between = f"range = {json.dumps(contract['ranges'][name])}"
            yield ", ".join([*_fields(name, arg, "read"), between, *weight])
    for name, arg in zip(results, contract["outputs"], strict=True):
        yield ", ".join(_fields(name, arg, "write"))
    if scratch:
        shape = {"dtype": "uint8", "shape": [scratch]}
        yield ", ".join(_fields(SCRATCH, shape, "workspace"))


def _fields(name: str, arg: Mapping[str, Any], access: str) -> list[str]:
    shape = json.dumps(arg["shape"] or ["1"])
    return [
        f'name = "{name}"',
        f'dtype = "{arg["dtype"]}"',
        f"shape = {shape}",
        f'access = "{access}"',
    ]


def _largest_result(contract: Mapping[str, Any]) -> str:
    shapes = [one["shape"] for one in contract["outputs"]]
    return "*".join(f"({extent})" for extent in max(shapes, key=len)) or "1"


def _row(dims: Mapping[str, int], more: str = "") -> str:
    words = [*(f"{name} = {extent}" for name, extent in dims.items()), *([more] if more else [])]
    return f"{{ {', '.join(words)} }}"


def _check_rows(contract: Mapping[str, Any]) -> list[str]:
    sizes = contract["sizes"]
    rows = [_row(dims) for dims in sizes]
    return rows + [_row(sizes[at % len(sizes)], f'values = "{f}"') for at, f in enumerate(FAMILIES)]


def _bytes(contract: Mapping[str, Any], dims: Mapping[str, int]) -> int:
    every = [*contract["inputs"].values(), *contract["outputs"]]
    return sum(
        math.prod(evaluate(e, dims) for e in arg["shape"]) * ITEMS[arg["dtype"]] for arg in every
    )


def _demo(contract: Mapping[str, Any]) -> dict[str, int]:
    """The file's sizes, halved where they are largest as long as they are too large."""
    dims = dict(contract["dims"])
    least = {name: min(ran[name] for ran in contract["sizes"]) for name in dims}
    while _bytes(contract, dims) > DEMO_BYTES:
        for name in sorted(dims, key=lambda n: -dims[n]):
            smaller = {**dims, name: dims[name] // 2}
            allowed = all(holds(relation, smaller) for relation in contract["require"])
            if smaller[name] >= least[name] and allowed:
                dims = smaller
                break
        else:
            break
    return dims


def _dims(contract: Mapping[str, Any]) -> list[str]:
    lines = []
    for name, extent in contract["dims"].items():
        ran = [dims[name] for dims in contract["sizes"]]
        bounds = [f"min = {min(ran)}", f"max = {max(2 * extent, LARGEST)}"]
        if contract["require"] == [f"{name} == {extent}"]:
            bounds = [f"values = [{extent}]"]
        lines += ["", f"[dims.{name}]", *bounds]
    return lines
