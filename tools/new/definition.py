"""A flashinfer-bench Definition as start of a task: its axes, tensors, constraints and reference.

The schema is that of flashinfer-bench 0.1: axes are const or var, a tensor without a shape is a
scalar, `reference` is Python source with a function `run`.
"""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, Field, ValidationError

from astra_chat.tools.cpp_heads import head
from astra_chat.tools.new.draft import (
    MARK,
    Draft,
    DraftScalar,
    Tensor,
    variables_of,
)
from astra_chat.tools.new.launched import with_accesses
from astra_chat.tools.new.reference_file import make_inputs, wide
from astra_chat.tools.task.expressions import parse_relation
from astra_chat.tools.types import DTYPES
from astra_vgpu.ground.errors import BadInput, reading

KINDS = {
    "float32": "float",
    "float16": "float",
    "bfloat16": "float",
    "int32": "int64_t",
    "int64": "int64_t",
    "bool": "bool",
}
"""C++ types of the launcher's scalars, by dtype of the Definition; float for others."""
Shape = tuple[str, ...]


class Axis(BaseModel):
    """An extent: a number, or what each workload gives."""

    type: Literal["const", "var"]
    value: int | None = None


class Spec(BaseModel):
    """A tensor, or a scalar if it has no shape."""

    shape: list[str] | None
    dtype: str


class Definition(BaseModel):
    """What is read of the file; other fields are ignored."""

    name: str
    description: str = ""
    axes: dict[str, Axis]
    constraints: list[str] | None = None
    inputs: dict[str, Spec]
    outputs: dict[str, Spec]
    reference: str = Field(min_length=1)

    @property
    def shapes(self) -> dict[str, Shape]:
        """Shapes of its tensors, by name; a scalar in a tensor has one element."""
        specs = {**self.inputs, **self.outputs}
        return {n: _shape(spec) for n, spec in specs.items() if spec.shape is not None}


def read_definition(path: Path) -> Definition:
    """Reads a Definition from its file. Raises BadInput where the file is no Definition."""
    with reading(path):
        text = path.read_text()
    try:
        found = Definition.model_validate_json(text)
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(map(str, first["loc"])) or "the file"
        raise BadInput(
            f"{path.name}: {field}: {first['msg']}: it is not a Definition of flashinfer-bench"
        ) from None
    for name, spec in {**found.inputs, **found.outputs}.items():
        if spec.dtype not in DTYPES:
            raise BadInput(
                f"{path.name}: {name} is {spec.dtype}: a task supports {', '.join(DTYPES)}"
            )
        if strange := [axis for axis in spec.shape or () if axis not in found.axes]:
            raise BadInput(f"{path.name}: {name}: its axis {strange[0]} is not listed in axes")
    return found


def draft_of(definition: Definition, entry: str) -> Draft:
    """A contract without a kernel: the launcher is to be written."""
    tensors = [
        *(
            Tensor(n, "read", s.dtype, _shape(s))
            for n, s in definition.inputs.items()
            if s.shape is not None
        ),
        *(Tensor(n, "write", s.dtype, _shape(s)) for n, s in definition.outputs.items()),
    ]
    scalars = [
        DraftScalar(name, KINDS.get(spec.dtype, "float"))
        for name, spec in definition.inputs.items()
        if spec.shape is None
    ]
    found, variables, known = variables_of(tensors)
    draft = Draft(
        entry=entry,
        tensors=found,
        dims=tuple(axis.lower() for axis in definition.axes),
        scalars=tuple(scalars),
        variables=variables,
        variables_known=known,
        origin=f"the Definition {definition.name}",
    )
    launcher = [
        f"// {MARK}: the kernel and its launcher; or give their file too: --from FILE.json --from"
        " FILE.cu",
        "#include <cstdint>",
        "#include <cuda_runtime.h>",
        "",
        *head(f'extern "C" cudaError_t {entry}', draft.parameters, " {"),
        "  return cudaErrorNotSupported;",
        "}",
        "",
    ]
    return with_definition(replace(draft, baseline="\n".join(launcher)), definition)


def with_definition(draft: Draft, definition: Definition) -> Draft:
    """The draft with what the Definition says beside shapes: extents, relations, the formula."""
    extents = {
        name.lower(): (axis.value,)
        for name, axis in definition.axes.items()
        if axis.value is not None and name.lower() in draft.dims
    }
    named = set(draft.dims)
    relations = [text for text in definition.constraints or () if _relation(text, named)]
    inputs, outputs = ({n.lower() for n in one} for one in (definition.inputs, definition.outputs))
    accesses = {name: "read" for name in inputs} | {name: "write" for name in outputs}
    accesses |= dict.fromkeys(inputs & outputs, "readwrite")
    draft = with_accesses(draft, accesses)
    return replace(
        draft,
        extents=extents,
        require=(*draft.require, *relations),
        summary=" ".join(definition.description.split()),
        reference=_reference(draft, definition),
    )


def _shape(spec: Spec) -> Shape:
    return tuple(axis.lower() for axis in spec.shape or ()) or ("1",)


def _relation(text: str, dims: set[str]) -> bool:
    """Whether a constraint is a relation between dims: others speak of values."""
    try:
        return parse_relation(text).names <= dims
    except ValueError:
        return False


def _reference(draft: Draft, definition: Definition) -> str:
    """The Definition's source, then the two functions of a task around its `run`."""
    read = [t for t in draft.tensors if t.access in ("read", "readwrite")]
    passed = [f'inputs["{name}"]' for name in definition.inputs]
    kinds = {t.name: wide(draft, t) for t in draft.tensors}
    results = [f'        "{n}": results["{n}"]{kinds.get(n, "")},' for n in definition.outputs]
    names = ", ".join(f'"{name}"' for name in definition.outputs)
    made = make_inputs(draft, [t for t in read if not draft.is_index(t)])
    lines = [
        definition.reference.strip(),
        "",
        "",
        *made,
        "",
        "",
        "def reference(inputs):",
        '    """What run() of the Definition returns, by name."""',
        f"    # {MARK}: run() chooses its own dtypes: change them to float64.",
        f"    found = run({', '.join(passed)})",
        "    if not isinstance(found, dict):",
        "        several = found if isinstance(found, (tuple, list)) else (found,)",
        f"        found = dict(zip([{names}], several))",
        "    results = found",
        "    return {",
        *results,
        "    }",
        "",
    ]
    text = "\n".join(lines)
    return text if re.search(r"^import torch\b", text, re.MULTILINE) else f"import torch\n\n{text}"
