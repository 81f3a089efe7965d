"""The example beside a winner's module: one call on the task's own inputs."""

from __future__ import annotations

from pprint import pformat

from astra_chat.tools.build.tvm_ffi_binding import given_dims
from astra_chat.tools.task.contract import Arg, Index, Scalar
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Case


def example_source(task: Task) -> str:
    """A program that loads the module beside it and calls it on the first timed case."""
    case = task.bench[0][0]
    present = [arg for arg in task.args if arg.present(case)]
    written = next(arg.name for arg in present if arg.written)
    return _EXAMPLE.format(
        entry=task.entry,
        label=case.named,
        dims=pformat(case.dims),
        dtype=case.dtype,
        types=_types(task, case),
        scalars=pformat(_scalars(task, case)),
        absent=case.absent,
        indices="\n".join(_indices(arg, case) for arg in present if arg.index) or "    pass",
        tensors="\n".join(_tensor(arg, case) for arg in present),
        arguments=call_arguments(task),
        written=written,
    )


def input_lines(task: Task, case: Case) -> list[str]:
    """Python that puts the tensors of a case into `tensors`, by name. It reads `generator`,
    `device`, `made` and the empty `INDICES`."""
    present = [arg for arg in task.args if arg.present(case)]
    lines = [line for arg in present if arg.index for line in _indices(arg, case).splitlines()]
    return lines + [line for arg in present for line in _tensor(arg, case).splitlines()]


def call_arguments(task: Task) -> str:
    """What the module's function is called with on that case, in `tensors`, as Python."""
    return ", ".join(_arguments(task, task.bench[0][0]))


def _types(task: Task, case: Case) -> str:
    types = {**{name: case.dtype for name in task.variables[:1]}, **case.types}
    return f"{{{', '.join(f'{name!r}: torch.{dtype}' for name, dtype in types.items())}}}"


def _scalars(task: Task, case: Case) -> dict[str, float]:
    return {scalar.name: scalar.value_in(case) for scalar in task.scalars}


def _indices(arg: Arg, case: Case) -> str:
    """Legal values of an index argument."""
    assert arg.index is not None
    low, high = arg.index.bounds(arg.names_in(case))
    dtype = f"torch.{arg.dtype_of(case)}"
    values = _values(arg.index, arg.shape_of(case), low, high)
    return f"    INDICES[{arg.name!r}] = {values}.to({dtype})"


def _values(index: Index, shape: tuple[int, ...], low: int, high: int) -> str:
    drawn = f"torch.randint({low}, {high}, {shape}, generator=generator)"
    count = 1
    for extent in shape:
        count *= extent
    match index.kind:
        case "any" | "lengths":
            return drawn
        case "sorted":
            return f"{drawn}.sort(-1).values"
        case "positions":
            return f"({low} + torch.arange({count}) % {high - low}).reshape({shape})"
        case "slots":
            distinct = f"torch.randperm({high - low}, generator=generator)[:{count}]"
            return f"({low} + {distinct}).reshape({shape})"
        case "distinct":
            rows, width = count // max(1, shape[-1]), shape[-1]
            keys = f"torch.rand(({rows}, {high - low}), generator=generator)"
            return f"({low} + {keys}.argsort(-1)[:, :{width}]).reshape({shape})"
        case "permutation":
            return f"({low} + torch.rand({shape}, generator=generator).argsort(-1))"


def _tensor(arg: Arg, case: Case) -> str:
    shape, strides = arg.shape_of(case), arg.strides_of(case)
    dtype = f"dtype=torch.{arg.dtype_of(case)}"
    like = f"torch.empty_strided({shape}, {strides}, {dtype}, device=device)"
    if not arg.read:
        return f"    tensors[{arg.name!r}] = {like}"
    given = f"made.get({arg.name!r}, INDICES.get({arg.name!r}))"
    drawn = f"torch.randn({shape}, generator=generator).to(torch.{arg.dtype_of(case)})"
    return (
        f"    given = {given}\n"
        f"    tensors[{arg.name!r}] = {like}.copy_({drawn} if given is None else given)"
    )


def _arguments(task: Task, case: Case) -> list[str]:
    """Returns the arguments of the module's function as Python, in their order."""
    tensors = [f"tensors[{arg.name!r}]" if arg.present(case) else "None" for arg in task.args]
    dims = [str(case.dims[name]) for name in given_dims(task)]
    return [*tensors, *dims, *(_scalar(scalar, case) for scalar in task.scalars)]


def _scalar(scalar: Scalar, case: Case) -> str:
    value = scalar.value_in(case)
    if scalar.type == "bool":
        return str(bool(value))
    return str(int(value)) if scalar.type == "int64_t" else repr(value)


_EXAMPLE = '''\
"""Loads the module in this folder and calls it once: {label}.

reference.py is the task's; its make_inputs draws the inputs.
"""

from dataclasses import dataclass
from pathlib import Path

import torch
from reference import make_inputs

INDICES = {{}}


@dataclass
class Case:
    """The argument of make_inputs."""

    dims: dict
    dtype: torch.dtype
    values: str
    types: dict
    scalars: dict
    absent: tuple

    def draw(self, generator, shape, dtype=None):
        return torch.randn(shape, generator=generator).to(dtype or self.dtype)

    def indices(self, generator, name):
        return INDICES[name]


CASE = Case(
    dims={dims},
    dtype=torch.{dtype},
    values="normal",
    types={types},
    scalars={scalars},
    absent={absent},
)


def inputs(device):
    """All tensors of the call, by name."""
    generator = torch.Generator().manual_seed(0)
    draw_indices(generator)
    made, tensors = make_inputs(CASE, generator), {{}}
{tensors}
    return tensors


def draw_indices(generator):
{indices}


if __name__ == "__main__":
    import tvm_ffi

    module = tvm_ffi.load_module(str(Path(__file__).with_name("{entry}.so")))
    tensors = inputs("cuda")
    module.{entry}({arguments})
    torch.cuda.synchronize()
    print(tensors["{written}"])
'''
