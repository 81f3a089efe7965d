"""The oracle process: a task's reference.py in float64, never together with a candidate."""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal

import torch

from astra_chat.tools.case import LARGE_ROWS
from astra_chat.tools.run.oracle import CANONICAL
from astra_chat.tools.runners.answers import (
    Tensors,
    answer,
    answered,
    copies,
    in_canonical_form,
    named_values,
    read,
    require,
    results,
    write,
)
from astra_chat.tools.runners.bands import NoFloat64, write_bands
from astra_chat.tools.runners.indices import draw_indices
from astra_chat.tools.runners.references import Undefined, last_line, line_of, load_reference
from astra_chat.tools.runners.values import (
    DrawnCase,
    Numbers,
    Range,
    draw_argument,
    draw_in_range,
    legal,
    without_small,
)
from astra_chat.tools.sandbox.seccomp import lock
from astra_chat.tools.system.reporter import Reporter
from astra_chat.tools.task.batch_invariance import has_rows, larger, taken
from astra_chat.tools.task.contract import Arg
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import Case
from astra_vgpu.ground.freed_memory import keep_freed_memory

THREADS = min(torch.get_num_threads(), 8)
"""Many judges on a machine of many cores share them: none takes all. That fewer threads are faster
there was not measured."""
ALONE_BYTES = 2**22
"""A case with less than that is made by one thread: to wake the others took up to ten times as
long on 16 cores."""


def main() -> None:
    """Serve one judge: each line of the pipe `asked` names a file with cases to make.

    Ends when the judge closes the pipe, or dies.
    """
    reporter = Reporter()
    keep_freed_memory()
    task = load_task(Path(reporter.request["task"]))
    lock(reporter.pipe)
    with Path(reporter.request["asked"]).open() as asked:
        for line in asked:
            _serve(task, json.loads(Path(line.strip()).read_text()), reporter)
            reporter.send("served")


def _serve(task: Task, items: list[dict[str, Any]], reporter: Reporter) -> None:
    """Write <arg>.in (bytes of the argument's dtype) and <arg>.expected (float64 or int64) for each
    case.

    Inputs and expected outputs go to folders apart. Where there are outputs of a kernel, report
    what reference.py says of them; where there are no folders, what is wrong with itself.
    """
    for index, item in enumerate(items):
        case = Case.model_validate(item["case"])
        _use_threads(task, case, item.get("beside", 0))
        try:
            reference, more = load_reference(task), dict[str, Any]()
            if "outputs" in item:
                inputs = _inputs(task, reference, case, Path(item["inputs"]))
                folders = Path(item["outputs"]), Path(item["canonical"])
                more = answer(task, reference, case, inputs | named_values(task, case), *folders)
            elif "folder" not in item:
                more = fault(task, reference, case, partial(_inputs, task, reference, case))
            else:
                folders = Path(item["folder"]), Path(item["inputs"])
                more["note"] = _write_case(task, reference, case, *folders, given=item["given"])
        except Exception as error:  # the reference is the user's code: the judge words the failure
            what = error.msg if isinstance(error, SyntaxError) else error
            kind = "" if isinstance(error, Undefined) else f"{type(error).__name__}: "
            message = f"{kind}{what}"
            reporter.send("failed", index=index, message=message, line=last_line(task, error))
            return
        reporter.send("case", index=index, **more)


def _use_threads(task: Task, case: Case, beside: int) -> None:
    """`beside`: processes that make cases at the same time."""
    size = sum(arg.bytes_of(case) for arg in task.args)
    torch.set_num_threads(1 if size < ALONE_BYTES else max(1, THREADS // (1 + beside)))


def _write_case(
    task: Task,
    reference: Any,
    case: Case,
    folder: Path,
    inputs_folder: Path,
    *,
    given: bool,
) -> str:
    """Writes inputs and results; `given`: the inputs of the launcher are there, and results are for
    these. Returns what a reader should know of them, or ""."""
    inputs = _inputs(task, reference, case, inputs_folder if given else None)
    for arg in task.args:
        if arg.read and not given:
            write(inputs[arg.name], inputs_folder / f"{arg.name}.in")
    named = inputs | named_values(task, case)
    expected = results(task, case, reference.reference(named))
    expected, canonical = in_canonical_form(reference, expected, named)
    for arg in task.args:
        if arg.written:
            write(expected[arg.name], folder / f"{arg.name}.expected")
    if not canonical:
        try:
            write_bands(task, reference, case, named, expected, folder)
        except NoFloat64 as fault:
            return f"reference.py does not accept float64: {fault}"
    else:
        (folder / CANONICAL).touch()
    return ""


def _inputs(task: Task, reference: Any, case: Case, given: Path | None = None) -> Tensors:
    """What the launcher reads: drawn, or as it is in this folder."""
    if case.rows_of and task.batch_invariant and given is None:
        return _taken_rows(task, reference, case, task.batch_invariant.rows)
    seed = generator_seed(case.seed)
    generator = torch.Generator().manual_seed(seed)
    # For a reference.py that draws without the generator; torch.manual_seed looks for GPUs, too.
    torch.default_generator.manual_seed(seed)
    inputs: Tensors = reference.make_inputs(drawn_case(task, case), generator)
    inputs |= _of_their_own(task, case, inputs, generator)
    for arg in task.args:
        if arg.values and isinstance(drawn := inputs.get(arg.name), torch.Tensor):
            inputs[arg.name] = legal(arg, drawn)
    inputs |= planted(task, case, inputs)
    for arg in task.args:
        if arg.smallest and isinstance(drawn := inputs.get(arg.name), torch.Tensor):
            inputs[arg.name] = without_small(arg, drawn)
    inputs |= {arg.name: None for arg in task.args if not arg.present(case)}
    for arg in task.args:
        if arg.read and arg.present(case):
            require(arg.name, inputs, arg.shape_of(case), getattr(torch, arg.dtype_of(case)))
            if given:
                inputs[arg.name] = read(given / f"{arg.name}.in", arg, case)
    return inputs


def _taken_rows(task: Task, reference: Any, case: Case, rows: str) -> Tensors:
    """Rows of the inputs of a larger call."""
    inputs, places = _inputs(task, reference, larger(case, rows)), taken(case, rows)
    for arg in task.args:
        drawn = inputs.get(arg.name)
        if drawn is not None and has_rows(arg, rows):
            inputs[arg.name] = drawn[places]
    return inputs


def drawn_case(task: Task, case: Case) -> DrawnCase:
    """What reference.py sees of a case."""
    indexed = {
        arg.name: partial(draw_indices, arg, case) for arg in task.args if arg.index is not None
    }
    first = {name: case.dtype for name in task.variables[:1]}
    types = {name: getattr(torch, dtype) for name, dtype in {**first, **case.types}.items()}
    scalars = {s.name: s.value_in(case) for s in task.scalars}
    dtype = getattr(torch, case.dtype)
    return DrawnCase(case.dims, dtype, case.values, types, scalars, case.absent, indexed)


def _of_their_own(
    task: Task, case: Case, made: Tensors, generator: torch.Generator
) -> dict[str, torch.Tensor]:
    """Inputs of the arguments to which the case gives a family of their own, and of those that
    reference.py leaves to the contract."""
    inputs = {}
    for arg in task.args:
        dtype, left = getattr(torch, arg.dtype_of(case)), arg.read and arg.name not in made
        if not arg.present(case):
            continue
        if arg.index and left:
            inputs[arg.name] = draw_indices(arg, case, generator)
        elif family := case.families.get(arg.name) or (case.values if left else None):
            shape = arg.shape_of(case)
            if arg.range is not None:
                between = Range(case.seed, *arg.range, arg.value_domain == "minus_inf")
                inputs[arg.name] = draw_in_range(family, generator, shape, dtype, between)
            elif arg.largest is not None:
                numbers = Numbers.of(case.seed, arg.largest, dtype)
                inputs[arg.name] = draw_argument(family, generator, shape, dtype, numbers)
    return inputs


def generator_seed(seed: int) -> int:
    """A seed of 32 bits for every one of 64: torch's generator on the CPU ignores the upper half.
    Smaller ones stay as they are. The last two bits stay, and LARGE_ROWS, which the generator
    remembers beside its 32: they say which special values there are.
    """
    if 0 <= seed < 2**32:
        return seed
    mixed = int.from_bytes(blake2b(str(seed >> 2).encode(), digest_size=4).digest())
    return mixed & ~3 | seed & (LARGE_ROWS | 3)


# Plants numbers among the drawn ones of an argument: in whole rows, as the first, the last and a
# single element of a row, and as the only number beside zeros.

Way = Literal["row", "first", "last", "one", "alone"]
WAYS: tuple[Way, ...] = ("one", "row", "first", "last", "alone")
BESIDE: tuple[Way, ...] = ("one", "row")
"""Ways in which the numbers next below and next above are planted."""
FEW = 8
"""Distinct numbers from which on an argument of which the contract says nothing holds numbers like
any: fewer are codes, as zeros and ones of a mask."""
MOST_LOOKED_AT = 4096
"""Elements that are looked at for that."""
INTEGER_OF = {1: torch.int8, 2: torch.int16, 4: torch.int32, 8: torch.int64}
Plant = tuple[float, Way]


def planted(
    task: Task, case: Case, inputs: Mapping[str, torch.Tensor | None]
) -> dict[str, torch.Tensor]:
    """The arguments in which the case plants numbers, with these in them. Where things are planted
    follows from the case's seed; arguments with equal rows hold a number in the same rows."""
    found = {}
    for arg in task.args:
        numbers, drawn = case.planted.get(arg.name, ()), inputs.get(arg.name)
        if not numbers or drawn is None or not drawn.numel() or not arg.present(case):
            continue
        rng = random.Random(f"{case.seed} planted")
        if arg.index is not None:
            found[arg.name] = _in_index(arg, case, drawn, [int(n) for n in numbers], rng)
        elif drawn.is_floating_point():
            found[arg.name] = _in_floats(arg, drawn, numbers, rng)
    return found


def _in_floats(
    arg: Arg, drawn: torch.Tensor, numbers: Sequence[float], rng: random.Random
) -> torch.Tensor:
    plants = list(_plants(arg, drawn, numbers))
    if not plants:
        return drawn
    rows = drawn.clone().reshape(-1, drawn.shape[-1])
    if len(rows) >= len(plants):
        places = rng.sample(range(len(rows)), len(plants))
        # The first and the last row are where loops begin and end.
        places[: len(places)] = _with_ends(places, len(rows))
        for row, (number, way) in zip(places, plants, strict=True):
            _plant(rows[row], number, way, rng, arg)
    else:
        single = [number for number, way in plants if way == "one"]
        flat = rows.reshape(-1)
        for number in single:
            flat[rng.randrange(len(flat))] = number
        for place in (0, len(flat) - 1):
            flat[place] = rng.choice(single)
        if len(rows) > 2:
            rows[rng.randrange(1, len(rows) - 1)] = rng.choice(single)
    return rows.reshape(drawn.shape)


def _with_ends(places: list[int], rows: int) -> list[int]:
    missing = [end for end in (0, rows - 1) if end not in places]
    return [*missing, *places[len(missing) :]]


def _plant(row: torch.Tensor, number: float, way: Way, rng: random.Random, arg: Arg) -> None:
    at = rng.randrange(len(row))
    if way == "row":
        row[:] = number
    elif way == "alone":
        row[:] = 0.0 if arg.may_hold(0.0) else number
        row[at] = number
    else:
        row[{"first": 0, "last": len(row) - 1, "one": at}[way]] = number


def _plants(arg: Arg, drawn: torch.Tensor, numbers: Sequence[float]) -> Iterator[Plant]:
    """The numbers as the dtype has them, those that are legal, each in every way; then those beside
    them in the dtype."""
    allowed = [number for number in numbers if _may_hold(arg, drawn, number)]
    beside = [
        other
        for number in allowed
        for other in _beside(number, drawn.dtype)
        if _may_hold(arg, drawn, other)
    ]
    for way in WAYS:
        for number in allowed:
            yield number, way
    for way in BESIDE:
        for number in beside:
            yield number, way


def _may_hold(arg: Arg, drawn: torch.Tensor, number: float) -> bool:
    """Whether the argument may hold it after it is rounded to the dtype."""
    rounded = float(torch.tensor(number, dtype=torch.float64).to(drawn.dtype))
    if not torch.isfinite(torch.tensor(rounded)) or not arg.may_hold(rounded):
        return False
    if arg.largest is not None or arg.range is not None:
        return True
    wide = drawn.double()  # torch asks no 8-bit float whether it is finite
    finite = wide[wide.isfinite()]
    if len(set(finite[:MOST_LOOKED_AT].tolist())) < FEW:
        return False
    return float(finite.min()) <= rounded <= float(finite.max())


def _beside(number: float, dtype: torch.dtype) -> Iterator[float]:
    """The numbers next below and next above in the dtype."""
    if dtype.itemsize not in INTEGER_OF:
        return
    value = torch.tensor([number], dtype=torch.float64).to(dtype)
    bits = value.view(INTEGER_OF[dtype.itemsize])
    for step in (-1, 1):
        yield float((bits + step).view(dtype))


def _in_index(
    arg: Arg, case: Case, drawn: torch.Tensor, numbers: Sequence[int], rng: random.Random
) -> torch.Tensor:
    """The index with these numbers in places of their own, still of its kind."""
    assert arg.index is not None
    flat = drawn.clone().reshape(-1)
    width = drawn.shape[-1] if drawn.ndim else 1
    places = rng.sample(range(len(flat)), min(len(numbers), len(flat)))
    for place, number in zip(_with_ends(places, len(flat)), numbers, strict=False):
        if arg.index.kind in ("slots", "permutation", "distinct"):
            _swap(flat, place, number, len(flat) if arg.index.kind == "slots" else width)
        else:
            flat[place] = number
    found = flat.reshape(drawn.shape)
    return found.sort(dim=-1).values if arg.index.kind == "sorted" else found


def _swap(flat: torch.Tensor, place: int, number: int, width: int) -> None:
    """The number in this place; what was there stands where the number was, within the row."""
    begin = place // width * width
    row = flat[begin : begin + width]
    there = (row == number).nonzero().flatten().tolist()
    if there:
        row[there[0]] = flat[place].clone()
    flat[place] = number


# What is wrong with a task's reference.py itself, found on a case before anything is built.


def fault(task: Task, reference: Any, case: Case, inputs: Callable[[], Tensors]) -> dict[str, Any]:
    """The first fault and the line of its function; no words where there is none. `inputs` draws
    the case's inputs."""
    name, words = next(_faults(task, reference, case, inputs), ("", ""))
    line = line_of(reference, name) if name else 0
    return {"fault": words, "line": line}


def _faults(
    task: Task, reference: Any, case: Case, inputs: Callable[[], Tensors]
) -> Iterator[tuple[str, str]]:
    drawn = inputs()
    if other := _different(drawn, inputs()):
        yield (
            "make_inputs",
            f"make_inputs draws a different '{other}' if it is called again with the same seed",
        )
    given = drawn | named_values(task, case)
    before = copies(given)
    expected = results(task, case, reference.reference(given))
    if other := _different(before, given):
        yield "reference", f"reference writes to its input '{other}'"
    asked = [a.name for a in task.args if a.written and a.judged_by(case) == "accept"]
    if asked and not hasattr(reference, "accept"):
        yield (
            "reference",
            f"'{asked[0]}' is judged by accept, but reference.py defines no function accept",
        )
    if other := _different(expected, results(task, case, reference.reference(copies(before)))):
        yield "reference", f"reference returns a different '{other}' for the same inputs"
    if any(arg.written and arg.judged_by(case) == "distribution" for arg in task.args):
        return
    outputs = _as_written(task, case, expected)
    if hasattr(reference, "accept"):
        said = answered(reference.accept(copies(before), copies(outputs)))
        if said["why"]:
            yield "accept", f"accept refuses what reference returns: {said['why']}"
    if hasattr(reference, "canonical"):
        once = {**outputs, **reference.canonical(copies(outputs), copies(before))}
        twice = {**once, **reference.canonical(copies(once), copies(before))}
        if other := _different(once, twice):
            yield "canonical", f"canonical() changes '{other}', which is already in canonical form"


def _as_written(task: Task, case: Case, expected: Tensors) -> Tensors:
    """Expected results as a kernel would write them."""
    outputs: Tensors = {}
    for arg in task.args:
        if not arg.written:
            continue
        tensor, dtype = expected[arg.name], getattr(torch, arg.dtype_of(case))
        if tensor is not None and tensor.is_floating_point():
            if not dtype.is_floating_point:
                tensor = tensor.round()
            if dtype.itemsize == 1:  # such results saturate
                info = torch.finfo(dtype) if dtype.is_floating_point else torch.iinfo(dtype)
                tensor = tensor.clamp(info.min, info.max)
        outputs[arg.name] = None if tensor is None else tensor.to(dtype)
    return outputs


def _different(left: Tensors, right: Tensors) -> str:
    """The first tensor whose bits differ."""
    for name, tensor in left.items():
        other = right.get(name)
        if isinstance(tensor, torch.Tensor) and (other is None or not _same(tensor, other)):
            return name
    return ""


def _same(left: torch.Tensor, right: torch.Tensor) -> bool:
    if left.shape != right.shape or left.dtype != right.dtype:
        return False
    bits = [t.contiguous().reshape(-1).view(torch.uint8) for t in (left, right)]
    return torch.equal(*bits)


if __name__ == "__main__":
    main()
