"""A contract as a predicate in Python: may a call's tensors and numbers go to the kernel?"""

from __future__ import annotations

from collections.abc import Iterator

from astra_chat.tools.build.tvm_ffi_binding import dim_sources, parameter_names
from astra_chat.tools.task.folder import Arg, Dim, Task

HELPERS = "def ceil_div(a: int, b: int) -> int:\n    return -(-a // b)\n"
"""What the expressions of contracts use beside Python's own."""


def predicate(task: Task, name: str) -> str:
    """The source of the function; it reads torch."""
    tensors = [arg for arg in task.args if not arg.optional]
    first = tensors[0].name
    lines = [f"def {name}({', '.join(parameter_names(task))}) -> bool:"]
    lines += [f"    tensors = ({', '.join(arg.name for arg in tensors)},)"]
    lines += [f"    if not all(t.is_cuda and t.device == {first}.device for t in tensors):"]
    lines += ["        return False"]
    dims = "".join(f"{len(arg.shape)}, " for arg in tensors)
    lines += [f"    if tuple(t.dim() for t in tensors) != ({dims}):", "        return False"]
    lines += [f"    {line}" for line in _dims(task)]
    lines += ["    return (", *(f"        {line}" for line in _conditions(task, tensors)), "    )"]
    return "\n".join(lines) + "\n"


def _dims(task: Task) -> Iterator[str]:
    for dim, argument, axis, others in dim_sources(task):
        if axis is not None:
            yield f"{dim} = {argument}.shape[{axis}] // ({' * '.join(others) or '1'})"


def _conditions(task: Task, tensors: list[Arg]) -> Iterator[str]:
    word = ""
    for condition in _each(task, tensors):
        yield f"{word}{condition}"
        word = "and "


def _each(task: Task, tensors: list[Arg]) -> Iterator[str]:
    yield _types(task, tensors)
    yield from (_range(name, dim, task) for name, dim in task.dims.items())
    for arg in tensors:
        yield f"tuple({arg.name}.shape) == ({', '.join(map(str, arg.shape))},)"
        if arg.strides is None:
            yield f"{arg.name}.is_contiguous()"
        else:
            fixed = [(n, one) for n, one in enumerate(arg.strides) if one != "free"]
            yield from (f"{arg.name}.stride({axis}) == {one}" for axis, one in fixed)
            if arg.stride_alignment_bytes > 1:
                free = [str(n) for n, one in enumerate(arg.strides) if one == "free"]
                yield (
                    f"all({arg.name}.stride(n) * {arg.name}.element_size()"
                    f" % {arg.stride_alignment_bytes} == 0 for n in ({', '.join(free)},))"
                )
        yield f"{arg.name}.data_ptr() % {max(arg.min_alignment_bytes, 1)} == 0"
    yield from (f"({relation})" for relation in task.require)


def _types(task: Task, tensors: list[Arg]) -> str:
    """One of the combinations of dtypes."""
    each = []
    for types in task.types or ({},):
        wanted = [f"torch.{types.get(arg.dtype, arg.dtype)}" for arg in tensors]
        each.append(f"({', '.join(wanted)},)")
    return f"tuple(t.dtype for t in tensors) in ({', '.join(dict.fromkeys(each))},)"


def _range(name: str, dim: Dim, task: Task) -> str:
    if dim.values:
        return f"{name} in ({', '.join(map(str, dim.values))},)"
    least = f"{dim.min} <= {name} <= {dim.max}"
    if dim.multiple_of_bytes > 1:
        typed = next(arg.name for arg in task.args if arg.dtype in task.variables[:1])
        return f"{least} and {name} * {typed}.element_size() % {dim.multiple_of_bytes} == 0"
    return f"{least} and {name} % {dim.multiple_of} == 0" if dim.multiple_of > 1 else least
