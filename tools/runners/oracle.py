"""The oracle process: a task's reference.py in float64, never together with a candidate."""

from __future__ import annotations

import json
from functools import partial
from hashlib import blake2b
from pathlib import Path
from typing import Any

import torch

from astra_chat.tools.case import LARGE_ROWS
from astra_chat.tools.run.oracle import CANONICAL
from astra_chat.tools.runners.answers import (
    Tensors,
    answer,
    in_canonical_form,
    named_values,
    read,
    require,
    results,
    write,
)
from astra_chat.tools.runners.bands import NoFloat64, write_bands
from astra_chat.tools.runners.indices import draw_indices
from astra_chat.tools.runners.planting import planted
from astra_chat.tools.runners.references import Undefined, last_line, load_reference
from astra_chat.tools.runners.soundness import fault
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


if __name__ == "__main__":
    main()
