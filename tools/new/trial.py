"""A trial of a new task: what was written is built, and its cases are recorded.

What a launcher launches, allocates and returns says what the text of a file leaves open: which
tensors are read and written, which dtypes the function takes, where its results come from. What
goes wrong becomes a note for the user.
"""

from __future__ import annotations

import random
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from astra_chat.tools.build.nvcc import BUILD_TIMEOUT_S, Build, build
from astra_chat.tools.mangled import scoped_name
from astra_chat.tools.new.asked_dtypes import AskedDtypes, with_asked_dtypes
from astra_chat.tools.new.draft import MARK, Draft, Tensor
from astra_chat.tools.new.launched import accesses_of, with_accesses
from astra_chat.tools.new.layout import OPEN
from astra_chat.tools.new.learned import Failure, with_learned
from astra_chat.tools.new.made_tensors import (
    RESULT,
    WORKSPACE,
    MadeTensors,
    free_name,
    made_in,
    with_made,
)
from astra_chat.tools.new.project import Project
from astra_chat.tools.new.reference_file import zeros_py
from astra_chat.tools.new.task_files import files
from astra_chat.tools.new.written_shapes import guessed, with_written_shapes
from astra_chat.tools.plan.model import LaunchPlan
from astra_chat.tools.plan.process import Died
from astra_chat.tools.plan.record import called_once, record_each
from astra_chat.tools.plan.report import Called, failure_text
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.system.subprocesses import StepTimeout
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import BuildFailed, Case, TimedOut
from astra_vgpu.ground.elf import Elf
from astra_vgpu.ground.errors import BadInput
from astra_vgpu.ground.gpu_specs import spec

UNCALLED = "-DASTRA_UNCALLED_LIBRARY"
"""Functions of the file that the task does not call may call torch's library."""
_MISSING = "is not implemented: "
MOST_CASES = 12
_DECIDED = ("is left out", "build_timeout_s")
_NUMBER = re.compile(r"\d+")
_CHECKS = re.compile(r"^checks (\d+)$", re.MULTILINE)
MOST_LINES = 12
UNBUILT = "the file does not build: "
_PLACE = re.compile(r"\(\d+\)|line \d+")
_INSTRUCTION = re.compile(r"(?:Instruction|Feature) '([^']+)' not supported on \.target '(\w+)'")
_NOT_LINKED, _UNCOUNTED = "exit status 127", 2**31
"""A function of another file is called, which a call does once all checks are met."""
MOST_LESSONS = 12
"""Checks of a function from which sizes are learnt."""
PATIENCE_S = 1200
"""Limit of a trial's build."""
TIMES_LONGER = 3
"""A build may take so many times as long on another machine."""
_SEED = 44


@dataclass(frozen=True)
class Tried:
    """The draft with what the trial told, and what did not work."""

    draft: Draft
    project: Project
    notes: tuple[str, ...] = ()

    @property
    def unbuilt(self) -> bool:
        """Whether the file did not build."""
        return any(note.startswith(UNBUILT) for note in self.notes)


def tried(name: str, draft: Draft, origin: str, project: Project) -> Tried:
    """Builds and records a draft. Raises MissingDependency without nvcc."""
    if MARK in draft.baseline:
        return Tried(draft, project)  # there is no kernel yet
    roomy = _roomy(draft)
    with tempfile.TemporaryDirectory(prefix="astra-new-") as scratch:
        trial = _Trial(name, origin, Path(scratch))
        seen = trial.seen(roomy, project)
        if isinstance(seen, str) and _MISSING in seen:
            project = replace(project, defines=(*project.defines, UNCALLED))
            seen = trial.seen(roomy, project)
        strayed = isinstance(seen, _Seen) and any(call.strayed for call in seen.calls)
        if strayed and draft.binding:
            draft, roomy = _on_default_stream(draft), _on_default_stream(roomy)
            seen = trial.seen(roomy, project)
        if isinstance(seen, str):
            return Tried(draft, project, (seen,))
        if (asked := with_asked_dtypes(draft, _asked(seen))) != draft:
            draft, roomy = asked, _roomy(asked)
            seen = trial.seen(roomy, project)
        if isinstance(seen, str):
            return Tried(draft, project, (seen,))
        drafted = draft
        draft, roomy, seen = trial.learned(draft, roomy, project, seen)
        draft, notes = _told(draft, seen)
        draft = trial.with_written_shapes(draft, roomy, project)
        if _made(draft) != _made(drafted):  # the memory of what it makes has not been tried
            last = trial.seen(draft, project)
        else:
            last = trial.task(draft, project) or seen.of_kept(draft)
        failed = [last] if isinstance(last, str) else last.failed_lines()
        draft = replace(draft, build_timeout_s=trial.limit_s())
        if draft.build_timeout_s:
            notes.append(_slow(trial.cpu_s, draft.build_timeout_s))
        if not failed:  # what a comment leaves open is as the code fills it in
            draft = replace(draft, tensors=tuple(_without(t, OPEN) for t in draft.tensors))
        return Tried(draft, project, tuple(dict.fromkeys([*notes, *failed])))


def _asked(seen: _Seen) -> list[AskedDtypes]:
    return [AskedDtypes(*one) for one in zip(seen.cases, (c.said for c in seen.calls), strict=True)]


def _made(draft: Draft) -> tuple[object, object]:
    """What the contract provides memory for that a function makes."""
    workspaces = [tensor for tensor in draft.tensors if tensor.access == "workspace"]
    return draft.binding.get("returns"), workspaces


def _shapes(draft: Draft) -> list[tuple[str, ...]]:
    return [draft.shape_of(tensor) for tensor in draft.tensors]


def _roomy(draft: Draft) -> Draft:
    """The draft with room for what a function of tensors makes itself."""
    if not draft.makes_tensors:
        return draft
    binding = {key: value for key, value in draft.binding.items() if key != "returns"}
    room = replace(WORKSPACE, name=free_name("workspace", draft.tensors))
    more = (room,) if any(t.written for t in draft.tensors) else (RESULT, room)
    return replace(draft, tensors=(*draft.tensors, *more), binding=binding)


def tried_again(folder: Path, notes: Sequence[str]) -> tuple[str, ...]:
    """What does not work of a folder whose cases have changed since its trial, which had these
    notes: what was decided by them stays. Raises MissingDependency without nvcc."""
    decided = [note for note in notes if any(words in note for words in _DECIDED)]
    made = _built(folder)
    seen = made if isinstance(made, str) else _recorded(*made)
    return (*decided, *([seen] if isinstance(seen, str) else seen.failed_lines()))


def _slow(cpu_s: float, limit_s: int) -> str:
    return (
        f"nvcc takes {cpu_s:.0f} s to build it, so build_timeout_s in task.toml is {limit_s};"
        " macros of the project (-D) leave out templates that your calls do not need"
    )


def _without(tensor: Tensor, doubt: str) -> Tensor:
    return replace(tensor, doubts=tuple(one for one in tensor.doubts if one != doubt))


def _on_default_stream(draft: Draft) -> Draft:
    return replace(draft, binding={**draft.binding, "default_stream": True})


@dataclass
class _Trial:
    """Folders in which drafts are tried."""

    name: str
    origin: str
    scratch: Path
    count: int = 0
    cpu_s: float = 0.0
    """Processor time of the slowest build."""

    def limit_s(self) -> int:
        """The limit that the task needs; 0 where the usual one will do."""
        needed = TIMES_LONGER * self.cpu_s
        return min(-(-int(needed) // 60) * 60, 3600) if needed > BUILD_TIMEOUT_S else 0

    def seen(self, draft: Draft, project: Project) -> _Seen | str:
        """What its cases do; or why that is not known."""
        made = self._tried(draft, project)
        return made if isinstance(made, str) else _recorded(*made)

    def with_written_shapes(self, draft: Draft, roomy: Draft, project: Project) -> Draft:
        """The draft with shapes of results that calls show, if it works with them. They are calls
        of the build that there is: the roomy draft's, whose results the launches have shown."""
        if not (names := guessed(draft)):
            return draft
        tensors = (replace(t, access="write") if t.name in names else t for t in roomy.tensors)
        shown = replace(roomy, tensors=tuple(tensors), variables=draft.variables)
        made = self._tried(replace(shown, reference=zeros_py(shown)), project)
        found = draft if isinstance(made, str) else with_written_shapes(draft, *made)
        if _shapes(found) == _shapes(draft):
            return found
        seen = self.seen(found, project)
        return draft if isinstance(seen, str) or seen.failed_lines() else found

    def learned(
        self, draft: Draft, roomy: Draft, project: Project, seen: _Seen
    ) -> tuple[Draft, Draft, _Seen]:
        """The drafts with what failing calls say of sizes and numbers, and their calls."""
        for _ in range(MOST_LESSONS):
            made = self._tried(roomy, project)
            if isinstance(made, str) or not seen.failed_lines():
                break
            failed = [_failed(call) for call in seen.calls]
            found = with_learned(roomy, seen.cases, failed, partial(_failures, *made))
            again = len({*found.require}) < len(found.require)  # no cases meet what was learnt
            after = self.seen(found, project) if found != roomy and not again else ""
            if isinstance(after, str):
                break
            roomy, seen = found, after
            draft = replace(
                draft,
                multiples=roomy.multiples,
                require=roomy.require,
                extents=roomy.extents,
                scalars=roomy.scalars,
                binding={**draft.binding, **roomy.binding},
            )
        return draft, roomy, seen

    def task(self, draft: Draft, project: Project) -> str:
        """Why there is no such task; "" where there is one."""
        try:
            load_task(self._written(draft, project))
        except BadInput as error:
            return str(error).replace(f"{self.scratch}/{self.count}/", "")
        return ""

    def _tried(self, draft: Draft, project: Project) -> tuple[Task, Build] | str:
        """The task and its baseline; or why there is none."""
        made = _built(self._written(draft, project))
        if not isinstance(made, str):
            self.cpu_s = max(self.cpu_s, made[1].cpu_s)
        return made

    def _written(self, draft: Draft, project: Project) -> Path:
        """A new folder of the draft."""
        self.count += 1
        folder = self.scratch / str(self.count)
        patient = replace(draft, build_timeout_s=PATIENCE_S)
        texts = files(self.name, patient, self.origin, project) | project.headers
        for file, text in texts.items():
            (folder / file).parent.mkdir(parents=True, exist_ok=True)
            (folder / file).write_text(text)
        return folder


def _built(folder: Path) -> tuple[Task, Build] | str:
    """A folder's task and its baseline; or why there is none."""
    try:
        task = load_task(folder)
    except BadInput as error:
        return str(error).replace(f"{folder}/", "")
    made = build(task, task.baseline, pick_device("virtual"))
    if isinstance(made, TimedOut):
        return (
            f"the file does not build within {made.limit_s:.0f} s: leave out templates that your"
            " calls do not need, using the project's macros (-D)"
        )
    if isinstance(made, BuildFailed):
        return UNBUILT + _build_errors(made.log)
    return task, made


def _build_errors(log: str) -> str:
    """What the compiler says, each error once."""
    if lacking := dict.fromkeys(_INSTRUCTION.findall(log)):
        named = "; ".join(f"{what} on {target}" for what, target in lacking)
        return (
            f"the GPU of the trial lacks what the file uses: {named}. Leave such code out with the"
            " project's macros (-D), or choose a kernel without it"
        )
    first = {_PLACE.sub("", line): line for line in reversed(log.splitlines()) if "error" in line}
    return "\n".join([*reversed(first.values())][:MOST_LINES]) or log


@dataclass
class _Seen:
    """The calls of the cases that were tried, and plans of those that work."""

    cases: list[Case]
    calls: list[Called]
    ptx: str
    plans: list[LaunchPlan] = field(default_factory=list)
    unplanned: str = ""
    """Why there are no plans."""

    def of_kept(self, draft: Draft) -> _Seen:
        """Without the cases of dtypes that the draft has no more."""
        kept = [
            at
            for at, case in enumerate(self.cases)
            if all(dtype in draft.variables[v] for v, dtype in _dtypes(draft, case).items())
        ]
        cases, calls = [self.cases[at] for at in kept], [self.calls[at] for at in kept]
        return replace(self, cases=cases, calls=calls)

    def works(self, at: int) -> bool:
        return not _failure(self.calls[at])

    def failed_lines(self) -> list[str]:
        """Each way to fail, with its first case."""
        first: dict[str, list[str]] = {}
        for case, call in zip(self.cases, self.calls, strict=True):
            if why := _failure(call):
                first.setdefault(_NUMBER.sub("", why), []).append(f"{case.label}: {why}")
        lines = [
            f"{ways[0]}" + (f" (and {len(ways) - 1} more cases)" if ways[1:] else "")
            for ways in first.values()
        ]
        return [*lines[:MOST_LINES], *([self.unplanned] if self.unplanned else [])]


def _failure(called: Called) -> str:
    """Why a call gives no plan; "" where it may."""
    if called.refused:
        return f"{called.refused}: launch plans do not support this call"
    if called.strayed:
        return "work on a stream other than the caller's"
    return failure_text(called) if called.status or called.left else ""


def _recorded(task: Task, made: Build) -> _Seen | str:
    gpu, cases = spec(pick_device("virtual").spec), list(task.check[:MOST_CASES])
    for combination in task.combinations:  # one case of each, at least
        if not any(_types(case) == _types(combination.case({})) for case in cases):
            cases += [c for c in task.check if _types(c) == _types(combination.case({}))][:1]
    try:
        calls = called_once(made, task, cases, gpu, random.Random(_SEED))
        if isinstance(calls, Died):
            return calls.message + _elsewhere(made)
        seen = _Seen(cases, list(calls), made.ptx.read_text(errors="replace"))
        right = [case for at, case in enumerate(cases) if seen.works(at)]
        plans = record_each(made, task, right, gpu, random.Random(_SEED)) if right else ()
    except StepTimeout:
        return "a call of the function did not return"
    if isinstance(plans, tuple):
        seen.plans = [plan for plan in plans if isinstance(plan, LaunchPlan)]
    else:
        findings = getattr(plans, "findings", ())
        seen.unplanned = findings[0].what if findings else getattr(plans, "message", str(plans))
    return seen


def _failed(called: Called) -> Failure:
    checks = _CHECKS.findall(called.said)
    return Failure(_failure(called), int(checks[-1]) if checks else 0)


def _failures(task: Task, made: Build, cases: Sequence[Case]) -> list[Failure]:
    """What each call fails with; a process that ends without a report is tried again in halves."""
    gpu = spec(pick_device("virtual").spec)
    if not cases:
        return []
    try:
        calls = called_once(made, task, cases, gpu, random.Random(_SEED))
        if not isinstance(calls, Died):
            return [_failed(call) for call in calls]
        why = calls.message
    except StepTimeout:
        why = "a call of the function did not return"
    if len(cases) == 1:
        linked = _NOT_LINKED not in why
        return [Failure(why, 0 if linked else _UNCOUNTED, linked)]
    half = len(cases) // 2
    return [*_failures(task, made, cases[:half]), *_failures(task, made, cases[half:])]


def _elsewhere(made: Build) -> str:
    """Names of functions that the file calls and neither defines nor finds in a library."""
    symbols = Elf.read(made.object).symbols
    undefined = sorted({symbol.name for symbol in symbols if not symbol.section})
    scoped = map(scoped_name, undefined)
    names = [name for name in scoped if name and not name.startswith("__")]
    if not names:
        return ""
    return (
        f"; it calls {', '.join(dict.fromkeys(names))}, which another file of the project defines:"
        " add that file with another --from, or define it in a file for --launcher or in"
        " launcher.cu under [binding]"
    )


def _types(case: Case) -> tuple[object, ...]:
    return case.dtype, *sorted(case.types.items())


def _told(draft: Draft, seen: _Seen) -> tuple[Draft, list[str]]:
    """The draft with what the calls tell."""
    right = [at for at in range(len(seen.cases)) if seen.works(at)]
    if not right:
        return draft, seen.failed_lines()[:1]
    draft, notes = _with_dtypes(draft, seen, right)
    tensors = made_in([MadeTensors(seen.cases[at], seen.calls[at].said) for at in right])
    draft = with_made(draft, tensors)
    return with_accesses(draft, accesses_of(seen.plans, seen.ptx)), notes


def _with_dtypes(draft: Draft, seen: _Seen, right: Sequence[int]) -> tuple[Draft, list[str]]:
    """Leaves out the dtypes of which no case works, and says why."""
    worked = [_dtypes(draft, seen.cases[at]) for at in right]
    notes, kept = [], dict(draft.variables)
    for variable, dtypes in draft.variables.items():
        for dtype in dtypes:
            if any(one[variable] == dtype for one in worked):
                continue
            failed = [i for i, c in enumerate(seen.cases) if _dtypes(draft, c)[variable] == dtype]
            why = _failure(seen.calls[failed[0]]) if failed else "no case has it"
            notes.append(f"{dtype} is left out: {why}")
            kept[variable] = tuple(d for d in kept[variable] if d != dtype)
    return replace(draft, variables=kept, variables_known=True), notes


def _dtypes(draft: Draft, case: Case) -> Mapping[str, str]:
    """What the type variables stand for in a case."""
    first = next(iter(draft.variables), None)
    return {v: case.dtype if v == first else case.types.get(v, "") for v in draft.variables}
