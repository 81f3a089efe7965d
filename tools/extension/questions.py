"""What both processes are asked about an extension, and what an evaluation makes of the answers.

The untrusted process answers with results alone. Those of the contract's cases are files that are
compared here, after both processes have ended; those of the other questions are compared by our
process. A finding of either ends the evaluation.

The untrusted process calls a built extension as it would a published module, through a file with
the problem's text and a ModelNew with the problem's weights whose forward is the library's.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from astra_chat.tools.check.compare import compare_written
from astra_chat.tools.extension.build import NAMESPACE, torch_folder
from astra_chat.tools.language import FORWARD
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.oracle import OracleCase
from astra_chat.tools.run.protocol import CaseReport
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Crashed, Finding, Refused, Wrong
from astra_chat.tools.walled.findings import FINDINGS, KINDS
from astra_chat.tools.walled.processes import Judging, judge
from astra_vgpu.ground.errors import BadInput

PROGRAM = "astra_chat.tools.extension.inside.asked"
TIMEOUT_S = 560.0
TRUST = (
    "torch extension: weaker evidence than a launch plan. Its host code ran in an untrusted"
    " process, which launched and timed its own calls; results were compared by another process"
)
"""What every verdict on an extension says of its evidence."""
HARMLESS = frozenset(
    "weights_not_handed problem_constant library_on_other_shapes fails_on_other_shapes"
    " library_does_the_job imprecise".split()
)
"""Findings that are no fault here: the contract says which shapes and how precise, and library
calls are allowed."""
NOTED = {
    "library_does_the_job": "library operators do all of the module's work",
    "imprecise": "on values other than those of the contract's cases, errors are near the"
    " tolerance",
}


@dataclass(frozen=True)
class Questioned:
    """What was asked about one extension, and what both processes left."""

    found: Mapping[str, Any]
    runs: Sequence[CaseRun] = ()
    """Calls of the contract's cases, in their order, and then of those that were timed."""
    cases: int = 0
    """How many of them are no timed ones."""

    def fault(self, task: Task) -> Crashed | Refused | None:
        """The first thing that is wrong, contract cases first. Raises BadInput where the task's
        module cannot be asked at all."""
        if "problem" in self.found:
            what = f"its module cannot be compared with an extension: {self.found['problem']}"
            raise BadInput(f"{task.name}: {what}")
        said = [*self.found["cases"]]
        for text, run in zip(said, self.runs, strict=False):
            if text:
                return Crashed(case=run.oracle_case.case, message=text)
        ended = [text for name, text in self.found["findings"] if name in ("ended", "not_built")]
        if ended and len(said) < self.cases:
            return Crashed(case=self.runs[len(said)].oracle_case.case, message=ended[0])
        return self._probed()

    def _probed(self) -> Refused | None:
        """What the questions of walled/inside/ours.py found, the gravest."""
        known = [(FINDINGS[name][0], name, text) for name, text in self.found["findings"]]
        grave = [one for one in known if one[1] not in HARMLESS]
        if not grave:
            return None
        kind, name, text = min(grave, key=lambda one: KINDS.index(one[0]))
        what = f"called by the judge ({kind}): {FINDINGS[name][1]}{f': {text}' if text else ''}"
        return Refused(gate="audit", findings=(Finding(line=1, what=what),))

    def wrong(self, task: Task, number: int) -> float | Wrong:
        """Worst share of the tolerance of a call, or what is wrong with its results."""
        return compare_written(task, self.runs[number])


@contextmanager
def questioned(
    task: Task,
    library: Path,
    cases: Sequence[OracleCase],
    timed: Sequence[OracleCase],
    how: Mapping[str, Any],
    stop: Stop,
) -> Iterator[Questioned]:
    """Asks both processes; what is given lives until the block ends.

    Args:
        library: the built extension.
        cases: the contract's, which the extension is called with.
        timed: those that it is timed on, by turns with the module.
        how: "device" ("cuda:0", "cpu"), "seed", "compilations" and "mode" of torch.compile.

    Raises:
        MissingDependency: where untrusted code cannot be isolated.
        Cancelled: after `stop` is set.
    """
    with tempfile.TemporaryDirectory(prefix="astra-extension-") as made:
        folder = Path(made).resolve()
        runs = [_run_of(folder / str(n), one) for n, one in enumerate([*cases, *timed])]
        asked = {
            "tensor_float32": task.tensor_float32,
            "graph": True,
            "cases": [_asked(task, run) for run in runs[: len(cases)]],
            "timed": [_asked(task, run) for run in runs[len(cases) :]],
            "compilations": how["compilations"],
            "mode": how["mode"],
        }
        judging = Judging(
            device=how["device"],
            seed=how["seed"],
            timing=False,
            compile=False,
            timeout_s=TIMEOUT_S,
            more=asked,
            ours=PROGRAM,
            read=(library.parent, torch_folder()),
            ours_read=tuple(one.inputs for one in (*cases, *timed)),
            write=(folder,),
        )
        found = judge(problem_text(task), candidate_text(task, library), judging, stop)
        yield Questioned(found, runs, len(cases))


def _run_of(folder: Path, oracle_case: OracleCase) -> CaseRun:
    folder.mkdir()
    return CaseRun(oracle_case, folder, CaseReport(), pattern=0)


def _asked(task: Task, run: CaseRun) -> dict[str, Any]:
    """A case as our process reads it: where inputs lie, and where results go."""
    case, found = run.oracle_case.case, dict[str, list[dict[str, Any]]](reads=[], writes=[])
    for arg in task.args:
        one = {"name": arg.name, "dtype": arg.dtype_of(case), "shape": list(arg.shape_of(case))}
        if arg.read:
            found["reads"].append({**one, "path": str(run.oracle_case.input_path(arg))})
        elif arg.written:
            found["writes"].append({**one, "path": str(run.folder / f"{arg.name}.after")})
    return found


TEXT = """

import operator as _operator
import torch as _torch
from astra_chat.tools.runners.module_calls import allow_tf32 as _allow_tf32
from astra_chat.tools.runners.modules import ModuleFunction as _ModuleFunction

_torch.ops.load_library({library!r})
_forward = _torch.ops.{namespace}.{forward}.default
_function = _ModuleFunction(Model)
_inputs = list(_function.values)
_places = [
    _inputs.index(_function.inputs[name]) if name in _function.inputs else None
    for name in {arguments!r}
]
_weights = [
    _operator.attrgetter(_function.weights[name])
    for name in {arguments!r}
    if name in _function.weights
]
_allow_tf32({tf32!r})


class ModelNew(Model):
    def forward(self, *given):
        weights = iter(_weights)
        return _forward(
            *(next(weights)(self) if at is None else given[at] for at in _places)
        )

    def on_arguments(self, *given):
        return _forward(*given)
"""


def problem_text(task: Task) -> str:
    """The file of the task's module; its class is `Model`, whatever it is called in there. Raises
    BadInput where the module is not in a file of the task's folder."""
    file, _, kind = (task.reference or "").partition(":")
    path = task.folder / f"{file}.py"
    if not path.is_file():
        raise BadInput(f"{task.name}: a torch extension needs the module's file, {path.name}")
    return path.read_text() + (f"\nModel = {kind}\n" if kind != "Model" else "")


def candidate_text(task: Task, library: Path) -> str:
    """The file that the untrusted process loads."""
    return problem_text(task) + TEXT.format(
        library=str(library),
        namespace=NAMESPACE,
        forward=FORWARD,
        arguments=[arg.name for arg in task.args if arg.read],
        tf32=task.tensor_float32,
    )
