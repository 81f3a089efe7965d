"""reference.py of a new task: inputs as task.toml shapes them, and a formula to be written."""

from __future__ import annotations

import keyword

from astra_chat.tools.new.draft import MARK, Draft, Tensor
from astra_chat.tools.new.guesses import scale_of
from astra_chat.tools.types import is_float

PYTHON_TYPES = {"float": "float", "bool": "bool"}
"""Types in Python of scalars; of others int."""
CEIL_DIV = "def ceil_div(a: int, b: int) -> int:\n    return -(-a // b)\n\n\n"


def reference_py(name: str, draft: Draft) -> str:
    """Inputs are drawn as task.toml shapes them; the formula is the user's to write."""
    read = [t for t in draft.tensors if t.access in ("read", "readwrite")]
    written = [t for t in draft.tensors if t.access in ("write", "readwrite")]
    drawn = [t for t in read if not draft.is_index(t)]
    results = [f'        "{t.name}": ...,  # {_words(draft, t)}' for t in written]
    given = [f'    {_local(t.name)} = inputs["{t.name}"]{wide(draft, t)}' for t in read]
    scalars = [
        f'    {s.name} = {PYTHON_TYPES.get(s.type, "int")}(inputs["{s.name}"])'
        for s in draft.scalars
    ]
    helpers = CEIL_DIV if any("ceil_div" in e for t in drawn for e in draft.shape_of(t)) else ""
    return (
        f'"""{name} in float64: the reference that kernels are checked against."""\n\n'
        "from __future__ import annotations\n\nfrom typing import Any\n\nimport torch\n\n\n"
        + helpers
        + "\n".join(
            [
                *make_inputs(draft, drawn),
                "",
                "",
                "def reference(inputs: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:",
                '    """Every argument that is written, float64 or int64: the formula, plainly."""',
                f"    # {MARK}: write the formula in place of each ...",
                *given,
                *scalars,
                "    return {",
                *results,
                "    }",
                "",
            ]
        )
    )


def zeros_py(draft: Draft) -> str:
    """Returns text that draws the same inputs and gives zeros as results, which nobody compares."""
    read = [t for t in draft.tensors if t.access in ("read", "readwrite")]
    written = [t for t in draft.tensors if t.access in ("write", "readwrite")]
    dims = [f'    {d} = int(inputs["{d}"])' for d in draft.dims]
    return "\n".join(
        [
            "from typing import Any\n\nimport torch\n\n",
            CEIL_DIV,
            *make_inputs(draft, [t for t in read if not draft.is_index(t)]),
            "",
            "def reference(inputs):",
            *dims,
            "    return {",
            *(f'        "{t.name}": {_zeros(draft, t)},' for t in written),
            "    }",
            "",
        ]
    )


def _zeros(draft: Draft, tensor: Tensor) -> str:
    return f"torch.zeros({_shape(draft, tensor)}, dtype=torch.{_wide_dtype(draft, tensor)[0]})"


def make_inputs(draft: Draft, drawn: list[Tensor]) -> list[str]:
    """Index arguments are the judge's to draw."""
    return [
        "def make_inputs(case: Any, generator: torch.Generator) -> dict[str, torch.Tensor]:",
        '    """Draw the arguments that are read, in the case\'s dtypes and value family."""',
        f"    # {MARK}: shapes and dtypes as in task.toml; index arguments are drawn by the judge.",
        *(f'    {d} = case.dims["{d}"]' for d in draft.dims),
        "    return {",
        *(f'        "{t.name}": {_draw(draft, t)},' for t in drawn),
        "    }",
    ]


def _draw(draft: Draft, tensor: Tensor) -> str:
    shape, dtypes = _shape(draft, tensor), draft.possible(tensor)
    dtype = f"torch.{dtypes[0]}"
    if len(dtypes) > 1:
        dtype = f'case.types["{tensor.dtype}"]'
    first = next(iter(draft.variables), None)
    if all(is_float(d) for d in dtypes):
        drawn = f"case.draw(generator, {shape})"
        return drawn if tensor.dtype == first else f"{drawn}.to({dtype})"
    if tensor.dtype == first:
        dtype = "case.dtype"
    if dtypes == ("bool",):
        return f"torch.rand({shape}, generator=generator) < 0.5"
    low, high = (0, 128) if dtypes[0] == "uint8" else (-128, 128) if dtypes[0] == "int8" else (0, 2)
    return f"torch.randint({low}, {high}, {shape}, generator=generator).to({dtype})"


def _shape(draft: Draft, tensor: Tensor) -> str:
    extents = [e.replace("*", " * ").replace("//", " // ") for e in draft.shape_of(tensor)]
    return f"({', '.join(extents)}{',' if len(extents) == 1 else ''})"


def _local(name: str) -> str:
    """A variable for an argument, "in" for one, which is no name in Python."""
    return f"{name}_" if keyword.iskeyword(name) else name


def wide(draft: Draft, tensor: Tensor) -> str:
    """The call that makes a tensor what the oracle compares: float64, int64 or bool."""
    dtypes = draft.possible(tensor)
    if all(is_float(d) for d in dtypes):
        return ".double()"
    return "" if dtypes == ("bool",) else ".long()"


def _words(draft: Draft, tensor: Tensor) -> str:
    dtype, scales = _wide_dtype(draft, tensor)
    units = f", unrounded, in units of {scales}" if scales else ""
    return f"{dtype}{units}, [{', '.join(draft.shape_of(tensor))}]"


def _wide_dtype(draft: Draft, tensor: Tensor) -> tuple[str, str]:
    """The dtype of its results in float64 or int64; and the scales of quantized codes, or ""."""
    if not draft.is_index(tensor) and (scales := scale_of(draft, tensor)):
        return "float64", scales[0]
    return {".double()": "float64", ".long()": "int64", "": "bool"}[wide(draft, tensor)], ""
