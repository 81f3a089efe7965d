"""The files of a new task folder as text: task.toml, baseline.cu and reference.py."""

from __future__ import annotations

import itertools
import json
import keyword
from collections.abc import Sequence

from astra_chat.tools.new.draft import MARK, Draft, Scalar, Tensor

TOLERANCES = {
    "float16": "{ rtol = 1e-3, atol = 1e-3 }",
    "bfloat16": "{ rtol = 8e-3, atol = 1e-3 }",
    "float32": "{ rtol = 1e-5, atol = 1e-5 }",
}
ROWS = (1, 3, 17, 64, 5)
COLUMNS = (64, 96, 256, 1000, 4096)
FLAT = (1, 31, 256, 4099, 65537)
FAMILIES = ("large", "tiny", "ramp", "one_hot")
LARGEST = {"only": 16777216, "first": 65536, "last": 16384}
"""Legal extents of a dim by its place, until the user says."""
DEFAULTS = {"float": "1.0", "int64_t": "1"}


def files(name: str, draft: Draft, origin: str, headers: Sequence[str] = ()) -> dict[str, str]:
    """Text by file name. `origin` says where the kernel came from; `headers` lie beside it."""
    return {
        "task.toml": task_toml(name, draft, origin, headers),
        "baseline.cu": draft.baseline,
        "reference.py": reference_py(name, draft),
    }


def task_toml(name: str, draft: Draft, origin: str, headers: Sequence[str] = ()) -> str:
    """The contract; lines that are guessed say so."""
    parts = [
        f"# Contract of {name}. Each comment that starts with {MARK} is for you: put right what it",
        f"# names, then delete it. `astra-chat tasks check {name}` lists those that are left.",
        "schema = 1",
        f'name = "{name}"',
        f'summary = "{name}"  # {MARK}: the formula, in a line; the agents read it',
        f'entry = "{draft.entry}"',
        f"dtypes = {json.dumps(draft.dtypes)}{_dtypes_mark(draft)}",
        f'flops = "{"*".join(draft.dims)}"  # {MARK}: arithmetic of one call, such as "4*rows*d"',
        'flags = ["-O3", "-std=c++17", "--expt-relaxed-constexpr"]',
        *([f"headers = {json.dumps(headers)}"] if headers else []),
        *_args(draft),
        *_scalars(draft),
        "",
        f"# {MARK}: odd sizes, the least and the largest your callers use, a case of each dtype.",
        "check = [",
        *(f"    {row}," for row in _check_rows(draft)),
        "]",
        "",
        f"# {MARK}: the sizes that your program calls, weighted by how often it does.",
        "bench = [",
        *(f"    {row}," for row in _bench_rows(draft, (4096, 256))),
        "]",
        "",
        "# Timed where the device is the virtual GPU: keep these small.",
        "demo = [",
        *(f"    {row}," for row in _bench_rows(draft, (16,))),
        "]",
        *_dims(draft),
        "",
        "[tolerance]",
        *(f"{dtype} = {TOLERANCES[dtype]}" for dtype in draft.dtypes),
        "",
        "[provenance]",
        f"baseline = {json.dumps(origin)}",
        "",
    ]
    return "\n".join(parts)


def _dtypes_mark(draft: Draft) -> str:
    return "" if draft.dtypes_known else f"  # {MARK}: those that the kernel takes"


def _args(draft: Draft) -> list[str]:
    lines = [
        '# dtype "T" is that of the case. An extent is a dim, a number or a product: "2*d".',
        "args = [",
    ]
    for tensor in draft.tensors:
        fields = [
            f'name = "{tensor.name}", dtype = "{draft.arg_dtype(tensor)}"',
            f"shape = {json.dumps(draft.shape_of(tensor))}",
            f'access = "{"write" if tensor.written else "read"}"',
            *(["strided = true"] if tensor.strided else []),
        ]
        doubts = _doubts(tensor)
        mark = f"  # {MARK}: {doubts}" if doubts else ""
        lines.append(f"    {{ {', '.join(fields)} }},{mark}")
    return [*lines, "]"]


def _doubts(tensor: Tensor) -> str:
    doubts = [] if tensor.shape else ["is this its shape?"]
    if tensor.written and not tensor.made:
        doubts.append('"readwrite" if the kernel reads it too')
    return " ".join(doubts)


def _scalars(draft: Draft) -> list[str]:
    if not draft.scalars:
        return []
    return ["scalars = [", *(f"    {_scalar(scalar)}" for scalar in draft.scalars), "]"]


def _scalar(scalar: Scalar) -> str:
    eps = "eps" in scalar.name
    value = scalar.value.rstrip("fF") or ("1e-6" if eps else DEFAULTS[scalar.type])
    value = {"true": "1", "false": "0"}.get(value.lower(), value)
    try:
        float(value)
    except ValueError:
        value = DEFAULTS[scalar.type]
    mark = "" if scalar.value else f"  # {MARK}: the value that your program passes"
    return f'{{ name = "{scalar.name}", type = "{scalar.type}", value = {value} }},{mark}'


def _dims(draft: Draft) -> list[str]:
    lines = [
        "",
        "# multiple_of_bytes = 16 says of a dim that its rows fill whole 16-byte vectors.",
    ]
    for index, name in enumerate(draft.dims):
        place = "last" if index == len(draft.dims) - 1 else "first"
        place = "only" if len(draft.dims) == 1 else place
        lines += [
            *([""] if index else []),
            f"# {MARK}: the legal range of {name}; hidden cases are drawn from all of it.",
            f"[dims.{name}]",
            "min = 1",
            f"max = {LARGEST[place]}",
        ]
    return lines


def _extents(draft: Draft, rows: int, columns: int) -> str:
    """All dims but the first and last are small: their product has to stay payable."""
    count = len(draft.dims)
    values = [columns] if count == 1 else [rows, *([2] * (count - 2)), columns]
    pairs = zip(draft.dims, values, strict=True)
    return ", ".join(f"{name} = {value}" for name, value in pairs)


def _check_rows(draft: Draft) -> list[str]:
    columns = FLAT if len(draft.dims) == 1 else COLUMNS
    dtypes = itertools.cycle(draft.dtypes)
    rows = [
        f'{{ {_extents(draft, r, c)}, dtype = "{dtype}" }}'
        for dtype in draft.dtypes
        for r, c in itertools.islice(zip(ROWS, columns, strict=True), 5)
    ]
    rows += [
        f'{{ {_extents(draft, 7, columns[2])}, dtype = "{next(dtypes)}", values = "{family}" }}'
        for family in FAMILIES
    ]
    return rows


def _bench_rows(draft: Draft, rows: tuple[int, ...]) -> list[str]:
    columns = [4096 * r if len(draft.dims) == 1 else 4096 for r in rows]
    return [
        f'{{ {_extents(draft, r, c)}, dtype = "{draft.dtypes[0]}", weight = 1 }}'
        for r, c in zip(rows, columns, strict=True)
    ]


def _local(name: str) -> str:
    """A variable for an argument, "in" for one, which is no name in Python."""
    return f"{name}_" if keyword.iskeyword(name) else name


def reference_py(name: str, draft: Draft) -> str:
    """Inputs are drawn as task.toml shapes them; the formula is the user's to write."""
    read = [t for t in draft.tensors if not t.written]
    written = [t for t in draft.tensors if t.written]
    unpack = [f'    {d} = case.dims["{d}"]' for d in draft.dims]
    drawn = [f'        "{t.name}": {_draw(draft, t)},' for t in read]
    results = [f'        "{t.name}": ...,  # {_words(draft, t)}' for t in written]
    given = [f'    {_local(t.name)} = inputs["{t.name}"].double()' for t in read]
    scalars = [
        f"    {s.name} = {_scalar(s).split('value = ')[1].split(' ')[0]}  # as in task.toml"
        for s in draft.scalars
    ]
    lines = [
        f'"""{name} in float64: the reference that kernels are checked against."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Any",
        "",
        "import torch",
        "",
        "",
        "def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:",
        '    """Draw every argument that is read, in the case\'s dtype and value family."""',
        f"    # {MARK}: shapes as in task.toml; arguments that are readwrite belong here too.",
        *unpack,
        "    return {",
        *drawn,
        "    }",
        "",
        "",
        "def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:",
        '    """Every argument that is written, as float64 tensors: the formula, plainly."""',
        f"    # {MARK}: write the formula in place of each ...",
        *given,
        *scalars,
        "    return {",
        *results,
        "    }",
        "",
    ]
    return "\n".join(lines)


def _draw(draft: Draft, tensor: Tensor) -> str:
    extents = [extent.replace("*", " * ") for extent in draft.shape_of(tensor)]
    drawn = f"case.draw(generator, ({', '.join(extents)}{',' if len(extents) == 1 else ''}))"
    return f"{drawn}.float()" if draft.arg_dtype(tensor) == "float32" else drawn


def _words(draft: Draft, tensor: Tensor) -> str:
    return f"float64, [{', '.join(draft.shape_of(tensor))}]"
