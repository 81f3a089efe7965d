"""The files of a new task folder as text: task.toml, baseline.cu and reference.py."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping

from astra_chat.tools.new import written_launcher
from astra_chat.tools.new.draft import MARK, Draft, DraftScalar, Tensor
from astra_chat.tools.new.guesses import (
    bench_extents,
    check_extents,
    index_of,
    largest,
    relations,
    scalar_value,
    scale_of,
)
from astra_chat.tools.new.project import Project
from astra_chat.tools.new.reference_file import reference_py
from astra_chat.tools.types import is_float

TOLERANCES = {
    "float16": "{ rtol = 1e-3, atol = 1e-3 }",
    "bfloat16": "{ rtol = 8e-3, atol = 1e-3 }",
    "float32": "{ rtol = 1e-5, atol = 1e-5 }",
    "float8_e4m3fn": "{ rtol = 0.0625, atol = 2e-3 }",
    "float8_e5m2": "{ rtol = 0.125, atol = 2e-3 }",
}
DEMO_ROWS = 1024
FAMILIES = ("large", "tiny", "ramp", "one_hot")

_CPP20 = re.compile(
    r"^[ \t]*#[ \t]*include[ \t]*<(?:bit|compare|concepts|ranges|source_location|span)>",
    re.MULTILINE,
)
"""Headers that only exist since C++20: a file that includes one is not built as C++17."""


def files(name: str, draft: Draft, origin: str, project: Project | None = None) -> dict[str, str]:
    """Text by file name. `origin` says where the kernel came from; the project's headers lie beside
    it."""
    return {
        "task.toml": task_toml(name, draft, origin, project or Project("")),
        "baseline.cu": draft.baseline,
        "reference.py": draft.reference or reference_py(name, draft),
        **({written_launcher.FILE: draft.launcher} if draft.launcher else {}),
    }


def task_toml(name: str, draft: Draft, origin: str, project: Project) -> str:
    """The contract; lines that are guessed say so."""
    parts = [
        f"# Contract of {name}. Each comment that starts with {MARK} is for you: correct what it",
        "# names, then delete it. `astra-chat tasks check` on this folder lists what is left.",
        "schema = 2",
        f'name = "{name}"',
        _summary(name, draft),
        f'entry = "{draft.entry}"',
        *_types(draft),
        f'flops = "{_flops(draft)}"  # {MARK}: arithmetic of one call, such as "4*rows*d"',
        f"flags = {json.dumps(_flags(draft, project))}",
        *([f"build_timeout_s = {draft.build_timeout_s}"] if draft.build_timeout_s else []),
        *([f"headers = {json.dumps([*project.headers])}"] if project.headers else []),
        *([f"include = {json.dumps(project.include)}"] if project.include else []),
        *_args(draft),
        *_scalars(draft),
        *_require(draft),
        "",
        f"# {MARK}: odd sizes, your callers' smallest and largest, a case of each dtype.",
        "check = [",
        *(f"    {row}," for row in _check_rows(draft)),
        "]",
        "",
        f"# {MARK}: the sizes that your program uses, weighted by how often it uses them.",
        "bench = [",
        *(f"    {row}," for row in _bench_rows(draft, (4096, 256))),
        "]",
        "",
        "# Timed on the virtual GPU unless --cases bench is given. Larger ones take longer; in",
        "# smaller ones, starting the kernel hides what a candidate gains.",
        "demo = [",
        *(f"    {row}," for row in _bench_rows(draft, (DEMO_ROWS,))),
        "]",
        *_dims(draft),
        "",
        *_tolerance(draft),
        "",
        "[provenance]",
        f"baseline = {json.dumps(origin)}",
        "",
        *_binding(draft),
    ]
    return "\n".join(parts)


def _tolerance(draft: Draft) -> list[str]:
    """Limits that fit results near 1; how large results are, nothing in a kernel says."""
    if not draft.toleranced:
        return ["[tolerance]"]
    return [
        f"# {MARK}: atol at most a hundredth of your usual results; these fit results near 1.",
        "[tolerance]",
        *(f"{dtype} = {TOLERANCES[dtype]}" for dtype in draft.toleranced),
    ]


def _flags(draft: Draft, project: Project) -> list[str]:
    extended = ["--expt-extended-lambda"] if draft.binding else []
    texts = [project.source, *project.headers.values()]
    standard = "c++20" if any(_CPP20.search(text) for text in texts) else "c++17"
    return ["-O3", f"-std={standard}", "--expt-relaxed-constexpr", *extended, *project.defines]


def _binding(draft: Draft) -> list[str]:
    """How the launcher calls the function of the file."""
    if not draft.binding:
        return []
    return [
        "# The launcher calls this function with arguments, dims, scalars (by name), and values",
        '# that no contract can express: { text = "auto" }, { dtype = "T" }, 1, {} for nothing.',
        *(f"# {MARK}: {doubt}" for doubt in draft.unbound),
        "[binding]",
        *(f"{key} = {_toml(value)}" for key, value in draft.binding.items()),
        "",
    ]


def _toml(value: object) -> str:
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(_toml, value))}]"
    if isinstance(value, Mapping):
        return _inline(value) if value else "{}"
    return json.dumps(value)


def _summary(name: str, draft: Draft) -> str:
    if draft.summary:
        return f"summary = {json.dumps(draft.summary)}"
    return f'summary = "{name}"  # {MARK}: the formula, on one line; the agents read it'


def _flops(draft: Draft) -> str:
    """An operation for each element of the largest result."""
    shapes = [draft.shape_of(t) for t in draft.tensors if t.access in ("write", "readwrite")]
    largest_shape = max(shapes, key=len, default=("1",))
    return "*".join(e if re.fullmatch(r"\w+", e) else f"({e})" for e in largest_shape)


def _types(draft: Draft) -> list[str]:
    if not draft.variables:
        return []
    mark = "" if draft.variables_known else f"  # {MARK}: those that the kernel takes"
    if list(draft.variables) == ["T"]:
        return [f"dtypes = {json.dumps(draft.dtypes)}{mark}"]
    rows = [", ".join(f'{v} = "{d}"' for v, d in types.items()) for types in draft.types]
    return [
        f"# {MARK}: the combinations of dtypes that the kernel takes.",
        "types = [",
        *(f"    {{ {row} }}," for row in rows),
        "]",
    ]


def _args(draft: Draft) -> list[str]:
    variables = ", ".join(f'"{v}"' for v in draft.variables)
    lines = [
        *([f"# dtype {variables}: that of the case."] if variables else []),
        '# An extent is a dim, a number or an expression: "2*d", "ceil_div(d, 16)".',
        "args = [",
    ]
    for tensor in draft.tensors:
        fields = [
            f'name = "{tensor.name}"',
            f'dtype = "{tensor.dtype}"',
            f"shape = {json.dumps(draft.shape_of(tensor))}",
            f'access = "{tensor.access}"',
            *([f"strides = {_strides(draft, tensor)}"] if tensor.strides else []),
            *(["optional = true"] if tensor.optional else []),
        ]
        doubts = list(tensor.doubts)
        if draft.is_index(tensor):
            fields.append(f"index = {_inline(index_of(draft, tensor))}")
            doubts.append("which numbers may callers pass?")
        elif scales := scale_of(draft, tensor):
            judged = {"by": "quantized", "scale": scales[0], "group": scales[1]}
            fields.append(f"judged = {_inline({**judged, 'off_by_one': 0.01})}")
            doubts.append("is this its scale, and the block that shares one?")
        mark = f"  # {MARK}: {'; '.join(doubts)}" if doubts else ""
        lines.append(f"    {{ {', '.join(fields)} }},{mark}")
    return [*lines, "]"]


def _strides(draft: Draft, tensor: Tensor) -> str:
    return json.dumps([s if s == "free" or not s.isdecimal() else int(s) for s in tensor.strides])


def _inline(table: Mapping[str, object]) -> str:
    return "{ " + ", ".join(f"{name} = {json.dumps(v)}" for name, v in table.items()) + " }"


def _scalars(draft: Draft) -> list[str]:
    if not draft.scalars:
        return []
    return ["scalars = [", *(f"    {_scalar(scalar)}" for scalar in draft.scalars), "]"]


def _scalar(scalar: DraftScalar) -> str:
    doubts = [scalar.doubt]
    if scalar.type == "bool":
        doubts.append("values = [true, false] if callers pass both")
    elif not scalar.value:
        doubts.append("the value that your program passes")
    asked = "; ".join(doubt for doubt in doubts if doubt)
    mark = f"  # {MARK}: {asked}" if asked else ""
    value = scalar_value(scalar)
    return f'{{ name = "{scalar.name}", type = "{scalar.type}", value = {value} }},{mark}'


def _require(draft: Draft) -> list[str]:
    met, unmet = relations(draft)
    left = [f"# {MARK}: the source requires {text}" for text in unmet]
    return [*left, *([f"require = {json.dumps(met)}"] if met else [])]


def _dims(draft: Draft) -> list[str]:
    lines = [
        "",
        "# multiple_of_bytes = 16 means that rows of this dim fill whole 16-byte vectors.",
    ]
    for index, name in enumerate(draft.dims):
        note = f" ({draft.notes[name]})" if name in draft.notes else ""
        step = draft.multiples.get(name, 1)
        if values := draft.extents.get(name):
            bounds = [f"values = {json.dumps(values)}"]
        else:
            multiple = [f"multiple_of = {step}"] if step > 1 else []
            bounds = [f"min = {step}", f"max = {largest(draft, name)}", *multiple]
            note += "; hidden cases are drawn from all of it."
        lines += [
            *([""] if index else []),
            f"# {MARK}: the valid range of {name}{note}",
            f"[dims.{name}]",
            *bounds,
        ]
    return lines


def _row(draft: Draft, extents: Mapping[str, int], types: Mapping[str, str], more: str) -> str:
    first = next(iter(types), None)
    named = [f'{"dtype" if v == first else v} = "{d}"' for v, d in types.items()]
    words = [*(f"{name} = {value}" for name, value in extents.items()), *named]
    return f"{{ {', '.join([*words, *([more] if more else [])])} }}"


def _check_rows(draft: Draft) -> list[str]:
    sizes = check_extents(draft)
    optional = json.dumps([t.name for t in draft.tensors if t.optional])
    absent = ("", f"absent = {optional}" if optional != "[]" else "")
    rows = [
        _row(draft, extents, types, absent[at % 2])
        for types in draft.types
        for at, extents in enumerate(sizes)
    ]
    inputs = [t for t in draft.tensors if t.access != "write"]
    if not any(is_float(dtype) for t in inputs for dtype in draft.possible(t)):
        return rows
    types = itertools.cycle(draft.types)
    middle = sizes[len(sizes) // 2]
    return rows + [_row(draft, middle, next(types), f'values = "{f}"') for f in FAMILIES]


def _bench_rows(draft: Draft, rows: tuple[int, ...]) -> list[str]:
    types = draft.types[0]
    return [_row(draft, bench_extents(draft, r), types, "weight = 1") for r in rows]
