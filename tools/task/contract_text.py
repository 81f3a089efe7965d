"""A contract as text, for models and people: what a caller may pass, line by line."""

from __future__ import annotations

from collections.abc import Iterator

from astra_chat.tools.task.contract import Arg, Dim, Index, Scalar
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.groups import in_rows
from astra_chat.tools.task.launcher import dtype_parameter
from astra_chat.tools.task.ranks import RanksContract
from astra_chat.tools.types import DTYPE_CODES, DTypeName

EVENLY = ", drawn uniformly for timing and, in some checks, from only one or three numbers"
"""How runners/indices.py draws an index, as text."""
INDEX_TEXT = {
    "any": EVENLY,
    "sorted": f"{EVENLY}, ascending in each row",
    "permutation": ", each row a permutation of the first numbers",
    "distinct": ", no number twice in a row; in some checks, all rows contain the same numbers",
    "positions": ", in runs of consecutive numbers",
    "slots": ", no number twice",
    "lengths": ", lengths: in some checks, all are minimal or maximal, or only one is long",
}
JUDGED_TEXT = {
    "close": "",
    "exact": ", compared exactly",
    "accept": ", judged by accept() in reference.py",
    "distribution": ", random draws, judged by their distribution",
}


SPECIAL = {
    "any": ", plus the special values NaN, infinities and the dtype's largest number",
    "no_nan": ", plus infinities and the dtype's largest number as special values, but no NaN",
    "minus_inf": ", plus negative infinity, but no NaN",
    "finite": ", no NaN or infinity",
}
"""Special values of an argument as text, by the values beside finite numbers that are legal."""


def argument_text(arg: Arg) -> str:
    """Name, dtype, shape, access and what else a kernel has to know of an argument."""
    beside = SPECIAL[arg.value_domain] if arg.values or arg.largest else ""
    numbers = f", values up to {arg.largest:g}" if arg.largest else ""
    if arg.range:
        numbers = ", values from {:g} to {:g}".format(*arg.range)
    if arg.smallest:
        numbers += f", each 0 or at least {arg.smallest:g} in magnitude"
    return (
        f"{arg.name}: {arg.dtype} [{', '.join(arg.shape)}], {access_text(arg)},"
        f" aligned to {arg.min_alignment_bytes} bytes{strides_text(arg)}{numbers}{beside}"
        f"{_index(arg.index) if arg.index else ''}{_judged(arg)}"
    )


def ranks_text(ranks: RanksContract) -> str:
    """How many ranks there are, what each holds, and what all must hold alike."""
    numbers = " or ".join(map(str, ranks.numbers))
    lines = [
        f"- {numbers} ranks; the dim `ranks` gives their number, and the scalar `rank` is"
        " the index of this rank"
    ]
    for peer in ranks.peers:
        arg = peer.arg
        lines.append(
            f"- {arg.name}: one pointer per rank, each of them to {arg.dtype}"
            f' [{", ".join(arg.shape)}], "{peer.role}"'
        )
    if ranks.alike:
        lines.append(f"- alike on all ranks (the same bits): {', '.join(ranks.alike)}")
    return "\n".join(lines)


def access_text(arg: Arg) -> str:
    words = {"workspace": "workspace of the caller (its contents are unspecified)"}
    optional = ", may be a null pointer" if arg.optional else ""
    return words.get(arg.access, arg.access) + optional


def strides_text(arg: Arg) -> str:
    """Where entries lie, if not one after the other."""
    if arg.strides is None:
        return ""
    of_bytes = arg.stride_alignment_bytes
    rule = f", each free stride a multiple of {of_bytes} bytes" if of_bytes > 1 else ""
    if arg.strides == ("free", "1"):
        return f", row stride {arg.name}_stride elements (at least one row{rule})"
    names = iter(arg.stride_names)
    strides = [next(names) if stride == "free" else stride for stride in arg.strides]
    return f", strides in elements [{', '.join(strides)}]{rule}"


def _index(index: Index) -> str:
    none = f", or {index.none} for no entry" if index.none is not None else ""
    table = f" (an index into {index.table})" if index.table else ""
    share = f" ({index.none_share:.0%} of them)" if index.none is not None else ""
    return f", {index.start} <= value < {index.below}{table}{INDEX_TEXT[index.kind]}{none}{share}"


def _judged(arg: Arg) -> str:
    if arg.judged is None:
        return ""
    if arg.judged.by == "quantized":
        return f", codes of the scales in {arg.judged.scale}"
    return JUDGED_TEXT[arg.judged.by]


def scalar_text(scalar: Scalar) -> str:
    """Name, type and values of a scalar."""
    if scalar.values:
        values = ", ".join(_value(scalar, value) for value in scalar.values)
        return f"{scalar.name}: {scalar.type}, one of {values}"
    when = (
        "in most cases, but the caller may pass another value" if scalar.varies else "in every case"
    )
    when += f", {scalar.range[0]:g} to {scalar.range[1]:g}" if scalar.range else ""
    return f"{scalar.name}: {scalar.type}, {_value(scalar, scalar.value)} {when}"


def _value(scalar: Scalar, value: float) -> str:
    return str(bool(value)).lower() if scalar.type == "bool" else f"{value:g}"


def dim_text(name: str, dim: Dim) -> str:
    """The legal extents of a dim."""
    if dim.values:
        return f"{name}: one of {', '.join(map(str, dim.values))}"
    steps = f", a multiple of {dim.multiple_of}" if dim.multiple_of > 1 else ""
    bytes_ = dim.multiple_of_bytes
    return f"{name}: {dim.min} to {dim.max}{steps}" + (
        f", spanning a multiple of {bytes_} bytes" if bytes_ > 1 else ""
    )


def domain_lines(task: Task) -> list[str]:
    """All dims, the relations between them, and how arguments may lie to each other."""
    relations = [f"always {relation}" for relation in task.require]
    dims = (dim_text(name, dim) for name, dim in task.dims.items())
    rule = task.batch_invariant
    invariant = [f"batch-invariant: {rule.text}"] if rule else []
    memory = [task.memory.text] if task.memory else []
    return [*dims, *relations, *groups_text(task), *invariant, *memory]


def groups_text(task: Task) -> Iterator[str]:
    """What the contract says of arguments in one buffer."""
    by_name = {arg.name: arg for arg in task.args}
    for group in task.packed:
        rows = in_rows([by_name[name] for name in group.args])
        how = "each row of the buffer contains a row of each, in this order, or " if rows else ""
        how += "one tensor directly follows the other"
        yield f"{' and '.join(group.args)} may be views of one buffer: {how}"
    for group in task.same:
        yield f"{' and '.join(group.args)} may be the same pointer: the call is then in place"


def types_text(task: Task) -> str:
    """What the type variables may stand for."""
    if not task.variables:
        return "as stated for each argument"
    if len(task.variables) == 1:
        return ", ".join(task.dtypes)
    each = (", ".join(f"{n} {dtype}" for n, dtype in types.items()) for types in task.types)
    return f"one of these combinations: {'; '.join(each)}"


def codes_text(task: Task) -> str:
    """What the launcher's dtype codes mean; "" where it takes none."""
    lines = []
    for variable in task.variables:
        own: dict[DTypeName, None] = dict.fromkeys(types[variable] for types in task.types)
        shown = ("float32", "float16", "bfloat16") if task.schema_version == 1 else own
        codes = ", ".join(f"{DTYPE_CODES[name]} {name}" for name in shown)
        lines.append(f"{dtype_parameter(variable)}: {codes}.")
    return " ".join(lines)


def precision_text(task: Task) -> str:
    """Which results beside the nearest value are right."""
    rule = task.precision
    of_terms = (
        "the sum of the absolute values of the terms of the result"
        if states_terms(task)
        else "the amount by which the result changes if its inputs change in their last bits"
    )
    text = (
        "a result of 16 bits or fewer must be the value of its dtype that is nearest to the exact"
        " result (a code: to the exact result divided by the scale that the kernel wrote); the"
        " second nearest value is accepted only if the exact result is within"
        f" {rule.text} of the midpoint between the two, where S is {of_terms}"
    )
    if rule.intermediate:
        text += f"; {rule.intermediate} may be rounded to nearest T once ({rule.reason})"
    elif rule.reason:
        text += f" ({rule.reason})"
    coded = [a for a in task.args if a.judged and a.judged.by == "quantized"]
    if coded and not states_terms(task):
        shares = ", ".join(
            f"{100 * a.judged.off_by_one:g} % of {a.name}" for a in coded if a.judged
        )
        text += f"; at most {shares} may be off by one step"
    return f"{text}; the errors of a column must not be biased in one direction"


def states_terms(task: Task) -> bool:
    """Whether reference.py gives the absolute sums of terms."""
    return "\ndef terms(" in task.reference_text
