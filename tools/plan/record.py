"""Records what a candidate's launcher launches: a launch plan for each case, or what is wrong.

A plan is what several recordings agree on.
"""

from __future__ import annotations

import itertools
import random
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field

from pydantic import ValidationError

from astra_chat.tools.build.nvcc import Build
from astra_chat.tools.mangled import last_identifier
from astra_chat.tools.plan.audit import audit, stored_variable
from astra_chat.tools.plan.model import MAX_FACTS, MAX_PARAMETER_BYTES, DeviceFact, LaunchPlan
from astra_chat.tools.plan.parameter_reads import unread_parameters
from astra_chat.tools.plan.process import RECORD_TIMEOUT_S, Died, Recorder, Recording, Surroundings
from astra_chat.tools.plan.relocate import Ranges, Seen, Unrepeatable, relocate, require_rounded
from astra_chat.tools.plan.report import Called, Report, failure_text
from astra_chat.tools.plan.stand_ins import (
    Addresses,
    Buffers,
    draw_addresses,
    draw_variables,
    usual_buffers,
)
from astra_chat.tools.policy.module_state import SHARED_STATE
from astra_chat.tools.system.subprocesses import StepTimeout, Stop
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import call_values
from astra_chat.tools.types import Case, Crashed, Finding, Refused, TimedOut
from astra_chat.tools.virtual_gpu.adapter import LIBRARY
from astra_vgpu.ground.cubin import Cubin, CubinVariable, read_cubin
from astra_vgpu.ground.elf import ElfError
from astra_vgpu.ground.errors import AstraError
from astra_vgpu.ground.gpu_specs import GpuSpec

MAX_CALL_BYTES = 2**16
"""Most parameter bytes of all kernels that one call launches."""

Outcome = Refused | Crashed | TimedOut


def record(
    build: Build,
    task: Task,
    cases: Sequence[Case],
    gpu: GpuSpec,
    rng: random.Random,
    *,
    buffers: Sequence[Buffers] | None = None,
    stop: Stop | None = None,
) -> tuple[LaunchPlan, ...] | Outcome:
    """A plan for each case, in their order; or the first thing that is wrong with the launcher.

    As `record_each` otherwise.
    """
    recorded = record_each(build, task, cases, gpu, rng, buffers=buffers, stop=stop)
    if not isinstance(recorded, tuple):
        return recorded
    failed = next((one for one in recorded if isinstance(one, Crashed)), None)
    return failed or tuple(one for one in recorded if isinstance(one, LaunchPlan))


def record_each(
    build: Build,
    task: Task,
    cases: Sequence[Case],
    gpu: GpuSpec,
    rng: random.Random,
    *,
    buffers: Sequence[Buffers] | None = None,
    stop: Stop | None = None,
) -> tuple[LaunchPlan | Crashed, ...] | Outcome:
    """For each case its plan, or the error that the launcher returns there; or what is wrong with
    the launcher for all of them: it is refused, or ends its process.

    `build.library` is linked with the fake CUDA runtime (astra_vgpu/cudart). `buffers` says
    how the arguments of each case will lie when the plan is replayed; by default each in a buffer
    of its own, shifted as its case says. Everything random is drawn from `rng`.

    Raises AstraError where the recorder itself fails, MissingDependency without a compiler, and
    Cancelled.
    """
    laid_out = buffers or [usual_buffers(task, case) for case in cases]
    source = _Source(build, task)
    try:
        cubin = read_cubin((build.folder / "kernel.cubin").read_bytes())
    except (ElfError, FileNotFoundError) as error:
        return source.refused(f"its cubin cannot be read: {error}")
    if reason := _unfit(cubin, gpu):
        return source.refused(reason)
    if LIBRARY.encode() not in build.library.read_bytes():
        raise AstraError(f"{build.library} is not linked with the fake CUDA runtime")
    recorder = Recorder(task, build.library, cubin, gpu)
    ptx = build.ptx.read_text(errors="replace")
    session = _Session(recorder, cases, laid_out, rng, stop or Stop(), source, ptx)
    try:
        return session.plans()
    except StepTimeout:
        return TimedOut(step="plan", limit_s=RECORD_TIMEOUT_S)
    except _Stopped as stopped:
        return stopped.outcome


def called_once(
    build: Build, task: Task, cases: Sequence[Case], gpu: GpuSpec, rng: random.Random
) -> tuple[Called, ...] | Died:
    """What a launcher asks for and says in one call of each case, or how it ends its process.

    Nothing is compared: it is for who wants to know a launcher, and judges none. Raises as
    `record_each`, and StepTimeout."""
    cubin = read_cubin(build.cubin.read_bytes())
    buffers = [usual_buffers(task, case) for case in cases]
    process = next(Draws(task, cases, buffers, cubin.variables, rng).processes())
    first = {asked.index: number for number, asked in reversed(list(enumerate(process.plan)))}
    recordings = [process.recordings[first[index]] for index in range(len(cases))]
    recorder = Recorder(task, build.library, cubin, gpu)
    report = recorder.run(process.variables, recordings, Stop(), process.surroundings)
    if isinstance(report, Died):
        return report
    return tuple(report.calls[recording.index] for recording in recordings)


def _unfit(cubin: Cubin, gpu: GpuSpec) -> str:
    """Why this GPU cannot run the cubin; "" where it can."""
    if not cubin.runs_on(gpu.compute):
        made, wanted = (f"sm_{major}{minor}" for major, minor in (cubin.compute, gpu.compute))
        return f"the cubin is for {made}, but the GPU is {wanted}"
    for kernel in cubin.kernels.values():
        if kernel.parameter_bytes > MAX_PARAMETER_BYTES:
            size = f"{kernel.parameter_bytes:,} parameter bytes"
            return f"kernel {kernel.name} takes {size}: more than {MAX_PARAMETER_BYTES:,}"
    return ""


DEFAULT_STREAM = "if callers use no other stream, set default_stream = true under [binding]"


class _Stopped(Exception):
    """Recording ends with this outcome."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__()
        self.outcome = outcome


@dataclass(frozen=True)
class _Source:
    """Where in the source a finding belongs."""

    build: Build
    task: Task

    def refused(self, what: str) -> Refused:
        """Returns a refusal at the first line that names the kernel in question, else the
        launcher."""
        text = (self.build.folder / "kernel.cu").read_text(errors="replace")
        words = re.findall(r"[A-Za-z_$][\w$]*", what)
        names = [last_identifier(word) for word in words if word.startswith("_Z")]
        line = next(
            (
                number
                for name in [*names, self.task.entry]
                for number, row in enumerate(text.splitlines(), start=1)
                if re.search(rf"\b{re.escape(name)}\s*\(", row)
            ),
            1,
        )
        return Refused(gate="plan", findings=(Finding(line=line, what=what),))


@dataclass
class _Session:
    """All recordings of one build."""

    recorder: Recorder
    cases: Sequence[Case]
    buffers: Sequence[Buffers]
    rng: random.Random
    stop: Stop
    source: _Source
    ptx: str
    unread: Mapping[str, Ranges] = field(default_factory=dict)
    """Parameter bytes that a kernel never reads, by its name: start and length of each range."""
    seen: dict[int, list[Seen]] = field(default_factory=dict)
    """Recordings by the case's number, in the order in which they were made."""
    facts: dict[str, int] = field(default_factory=dict)
    rounded: dict[int, tuple[Seen, Seen]] = field(default_factory=dict)
    """Two recordings by the case's number, alike but for the rounding: to nearest, and
    otherwise."""
    failed: dict[int, Crashed] = field(default_factory=dict)
    """Error that the launcher returned first, by the case's number."""

    def plans(self) -> tuple[LaunchPlan | Crashed, ...]:
        """Returns for each case its plan, or the error that the launcher returns. Raises
        _Stopped."""
        draws = Draws(
            self.recorder.task, self.cases, self.buffers, self.recorder.cubin.variables, self.rng
        )
        made = list(draws.processes())
        with ThreadPoolExecutor(len(made)) as pool, self.stop.on_ctrl_c():
            waiting = [
                pool.submit(self.recorder.run, p.variables, p.recordings, self.stop, p.surroundings)
                for p in made
            ]
            for process, answer in zip(made, waiting, strict=True):
                self._take(process, answer.result())
        launched = {
            node.kernel
            for one in itertools.chain(*self.seen.values())
            for node in one.called.nodes
            if node.kind == "kernel"
        }
        self.unread = unread_parameters(self.ptx, self.recorder.cubin, sorted(launched))
        return tuple(self.failed.get(i) or self._plan(i) for i in range(len(self.cases)))

    def _take(self, process: RecordingProcess, report: Report | Died) -> None:
        """Takes the report of one process. Raises _Stopped where a launcher asked for what no plan
        can hold."""
        if isinstance(report, Died):
            raise _Stopped(self._died(report, [asked.index for asked in process.plan]))
        self.facts |= report.facts
        for recording, asked in zip(process.recordings, process.plan, strict=True):
            called = report.calls[recording.index]
            self._require_clean(called, asked.index)
            seen = Seen(called, asked.addresses, process.variables, recording.pattern)
            if asked.rounding:
                self.rounded[asked.index] = self.seen[asked.index][-1], seen
            else:
                self.seen.setdefault(asked.index, []).append(seen)

    def _require_clean(self, called: Called, index: int) -> None:
        """The launcher asked for nothing that a plan cannot hold; an error that it returned is kept
        as its case's. Raises _Stopped."""
        case = self.cases[index]
        if called.refused:
            what = (
                f"{called.refused}: a launch plan may contain only kernels, memsets and copies"
                " within the device"
            )
            raise _Stopped(self._refused(case, f"{what}, all on the caller's stream"))
        if called.strayed:
            binding = self.recorder.task.binding
            out = f" (perhaps the default stream? {DEFAULT_STREAM})" if binding else ""
            what = f"work on a stream other than the caller's{out}"
            raise _Stopped(self._refused(case, what))
        if called.status:
            self.failed.setdefault(index, Crashed(case=case, message=failure_text(called)))
        elif called.left:
            what = (
                f"a CUDA call failed with error {called.left} ({called.error}), which the"
                " launcher neither returned nor cleared"
            )
            more = f": {failure_text(called)}" if called.failed else ""
            raise _Stopped(self._refused(case, what + more))

    def _refused(self, case: Case, what: str) -> Refused:
        return self.source.refused(f"{case.label}: {what}")

    def _died(self, died: Died, order: Sequence[int]) -> Outcome:
        known = died.index is not None and 0 <= died.index < len(order)
        case = self.cases[order[died.index if known and died.index else 0]]
        if died.refused:
            return self._refused(case, died.message)
        return Crashed(case=case, message=died.message)

    def _plan(self, index: int) -> LaunchPlan | Crashed:
        case, cubin, laid_out = self.cases[index], self.recorder.cubin, self.buffers[index]
        self._require_layout(index)
        try:
            nodes = relocate(self.seen[index], laid_out, cubin, self.unread)
            require_rounded(nodes, *self.rounded[index], cubin, self.unread)
        except Unrepeatable as error:
            raise _Stopped(self._refused(case, str(error))) from None
        except ValidationError as error:
            what = error.errors(include_url=False, include_input=False)[0]["msg"]
            return Crashed(case=case, message=f"no launch plan: {what}")
        if fault := audit(nodes, cubin, laid_out, self.recorder.spec):
            return Crashed(case=case, message=f"no launch plan: {fault}")
        if name := stored_variable(nodes, self.ptx):
            what = f"a launch, memset or copy writes to module variable {name}: {SHARED_STATE}"
            raise _Stopped(self._refused(case, what))
        facts = sorted(self.facts.items())[:MAX_FACTS]
        told = tuple(DeviceFact(name=name, value=value) for name, value in facts)
        return LaunchPlan(case=case, nodes=nodes, facts=told)

    def _require_layout(self, index: int) -> None:
        """Requires the cubin's kernels and parameter sizes in every recording, before they are
        compared. Raises _Stopped."""
        for seen in self.seen[index]:
            kernels = [node for node in seen.called.nodes if node.kind == "kernel"]
            if sum(len(node.parameters) for node in kernels) > MAX_CALL_BYTES:
                what = f"more than {MAX_CALL_BYTES:,} parameter bytes in one call"
                raise _Stopped(self._refused(self.cases[index], what))
            for node in kernels:
                kernel = self.recorder.cubin.kernels.get(node.kernel)
                if kernel is None or len(node.parameters) != kernel.parameter_bytes:
                    what = f"the cubin has no kernel {node.kernel} with such parameters"
                    message = f"no launch plan: {what}"
                    raise _Stopped(Crashed(case=self.cases[index], message=message))


# Which recordings of a launcher are made: processes, and the calls of each.
#
# Processes: one that makes all cases three times in drawn orders, twice with the same addresses;
# one that makes all cases with other addresses of arguments and variables, and again where numbers
# round otherwise; and a few that make one drawn case alone. Each process has an environment and a
# locale of its own, each recording a floating-point state (below). A plan is what all of them agree
# on.

MOST_RECORDINGS = 8
"""Most recordings of a case with a stack pattern and a host state of their own."""
ALONE = 2
"""Cases that are also recorded in a process of their own."""


@dataclass(frozen=True)
class Asked:
    """One recording that a process is asked for."""

    index: int
    """Number of the case."""
    addresses: Addresses
    rounding: int = 0
    """Mode in which the host's numbers round."""


@dataclass(frozen=True)
class RecordingProcess:
    """What one recorder process is asked."""

    variables: Mapping[str, int]
    plan: Sequence[Asked]
    recordings: Sequence[Recording]
    surroundings: Surroundings


@dataclass
class Draws:
    """What is drawn for the recordings of one build."""

    task: Task
    cases: Sequence[Case]
    buffers: Sequence[Buffers]
    """Buffers of each case."""
    variables: Mapping[str, CubinVariable]
    rng: random.Random
    patterns: dict[int, list[int]] = field(default_factory=dict)
    """Bytes that the stack may hold, not used yet, by the case's number."""
    states: dict[int, list[int]] = field(default_factory=dict)
    """States of the host, not used yet, by the case's number."""

    def processes(self) -> Iterator[RecordingProcess]:
        for drawn in self._drawn():
            yield self._process(*drawn)

    def _drawn(self) -> Iterator[tuple[dict[str, int], list[Asked], int, Surroundings]]:
        """For each process the addresses of variables, the cases with theirs, the stream, and what
        surrounds it."""
        one, other = (
            Surroundings(tuple(environment.items()), locale)
            for environment, locale in zip(
                drawn_environments(self.rng), drawn_locales(self.rng), strict=True
            )
        )
        here, there = (draw_variables(self.variables, self.rng) for _ in range(2))
        stream = self.rng.randrange(2**12, 2**43) * 16
        if self.task.binding and self.task.binding.default_stream:
            stream = 0
        taken = [
            range(start, start + self.variables[name].bytes)
            for name, start in [*here.items(), *there.items()]
        ]
        first, second, third = (
            [draw_addresses(buffers, taken, self.rng) for buffers in self.buffers] for _ in range(3)
        )
        passes = (first, first, second)
        yield here, [Asked(i, drawn[i]) for drawn in passes for i in self._order()], stream, one
        again = [Asked(i, third[i]) for i in self._order()]
        yield there, [*again, *self._rounded(third)], 0, other
        for index in self.rng.sample(range(len(self.cases)), min(ALONE, len(self.cases))):
            yield here, [Asked(index, first[index])], stream, other

    def _rounded(self, addresses: Sequence[Addresses]) -> list[Asked]:
        """Each case in one of the other rounding modes, which take turns."""
        shift = self.rng.randrange(len(ROUNDING_MODES))
        modes = {i: ROUNDING_MODES[(i + shift) % len(ROUNDING_MODES)] for i in self._order()}
        return [Asked(i, addresses[i], rounding=mode) for i, mode in modes.items()]

    def _order(self) -> list[int]:
        return self.rng.sample(range(len(self.cases)), len(self.cases))

    def _process(
        self,
        variables: Mapping[str, int],
        plan: Sequence[Asked],
        stream: int,
        surroundings: Surroundings,
    ) -> RecordingProcess:
        recordings, usual = list[Recording](), dict[int, Recording]()
        for number, asked in enumerate(plan):
            if asked.rounding:
                before = usual[asked.index]
                pattern, state = before.pattern, with_rounding(before.state, asked.rounding)
            else:
                pattern, state = self._pattern(asked.index), self._state(asked.index)
            made = self._recording(number, asked, stream, pattern, state)
            usual.setdefault(asked.index, made)
            recordings.append(made)
        return RecordingProcess(variables, plan, recordings, surroundings)

    def _pattern(self, index: int) -> int:
        """What the stack holds before a recording of this case: a byte of its own for each, and a
        drawn distance by which the stack is shifted."""
        if index not in self.patterns:
            self.patterns[index] = self.rng.sample(range(256), MOST_RECORDINGS)
        return self.rng.randrange(256) << 8 | self.patterns[index].pop()

    def _state(self, index: int) -> int:
        """Returns the state of the host before a recording of this case."""
        if index not in self.states:
            self.states[index] = drawn_states(self.rng, MOST_RECORDINGS)[::-1]
        return self.states[index].pop()

    def _recording(
        self, number: int, asked: Asked, stream: int, pattern: int, state: int
    ) -> Recording:
        task, laid_out, addresses = self.task, self.buffers[asked.index], asked.addresses
        pointers = [addresses.arguments[arg.name] for arg in task.args]
        values = call_values(task, self.cases[asked.index], pointers, stream)
        names = [
            "+".join(a.name for a in laid_out.arguments if a.buffer == number)
            for number in range(len(laid_out.buffers))
        ]
        return Recording(
            index=number,
            words=tuple(int.from_bytes(bytes(value), "little") for value in values),
            reserved=tuple(
                (name or "unused", start, buffer.bytes)
                for name, start, buffer in zip(
                    names, addresses.buffers, laid_out.buffers, strict=True
                )
            ),
            stream=stream,
            pattern=pattern,
            state=state,
        )


ROUNDING_MODES = (1, 2, 3)
"""Down, up, toward zero, as MXCSR and the x87 control word number them; 0 is to nearest."""
_FLUSHING, _EXCEPTIONS = 0b11 << 2, 0b111111 << 4
_ERRNO_AT, _SIGNALS_AT = 10, 18
LOCALES = ("C", "C.UTF-8", "de_DE.UTF-8", "fr_FR.UTF-8", "tr_TR.UTF-8", "POSIX")
"""One that is not installed leaves the process as it was."""
VARIABLES = {
    "CUDA_VISIBLE_DEVICES": "0 1 7 0,1,2,3,4,5,6,7",
    "CUDA_LAUNCH_BLOCKING": "0 1",
    "CUDA_MODULE_LOADING": "LAZY EAGER",
    "CUDA_DEVICE_MAX_CONNECTIONS": "1 8 32",
    "HOME": "/root /home/user /nonexistent",
    "HOSTNAME": "localhost worker-3",
    "LANG": "C en_US.UTF-8 de_DE.UTF-8",
    "LOGNAME": "root user",
    "NCCL_DEBUG": "WARN INFO",
    "OMP_NUM_THREADS": "1 8 64",
    "PATH": "/usr/bin:/bin /usr/local/bin:/usr/bin",
    "PWD": "/ /workspace",
    "PYTORCH_CUDA_ALLOC_CONF": "expandable_segments:True max_split_size_mb:128",
    "PYTORCH_NO_CUDA_MEMORY_CACHING": "1",
    "RANK": "0 3",
    "SGLANG_USE_MODELSCOPE": "true false",
    "SHELL": "/bin/sh /bin/bash",
    "TERM": "dumb xterm-256color",
    "TMPDIR": "/tmp /var/tmp",
    "TORCH_CUDA_ARCH_LIST": "9.0 9.0a",
    "TZ": "UTC Europe/Berlin",
    "USER": "root user",
    "VLLM_USE_V1": "0 1",
    "WORLD_SIZE": "1 8",
}
"""Names that servers and machines set, each with values of which one is drawn."""


def usual_state(rng: random.Random) -> int:
    """A state that rounds to nearest and flushes nothing, with drawn errno and signals."""
    return rng.randrange(128) << _ERRNO_AT | rng.getrandbits(8) << _SIGNALS_AT


def drawn_states(rng: random.Random, count: int) -> list[int]:
    """So many states that round to nearest; the first two are each other's opposite in what they
    flush and in the exceptions that have been raised."""
    set_first = rng.randrange(2)
    common = [set_first, 1 - set_first]
    states = [usual_state(rng) | (_FLUSHING | _EXCEPTIONS) * one for one in common]
    while len(states) < count:
        states.append(usual_state(rng) | rng.getrandbits(8) << 2)
    return states


def with_rounding(state: int, mode: int) -> int:
    """Returns the state with floating-point operations that round by this mode."""
    return state & ~3 | mode


def drawn_environments(rng: random.Random) -> tuple[dict[str, str], dict[str, str]]:
    """The environments of two processes. Each common name is in one of them, with a drawn value;
    both have names of their own."""
    two: tuple[dict[str, str], dict[str, str]] = ({}, {})
    for name, values in VARIABLES.items():
        two[rng.randrange(2)][name] = rng.choice(values.split(" "))
    for environment in two:
        for _ in range(rng.randrange(1, 5)):
            environment[_word(rng).upper()] = _word(rng)
    return two


def _word(rng: random.Random) -> str:
    return "".join(rng.choices(string.ascii_lowercase, k=rng.randrange(4, 24)))


def drawn_locales(rng: random.Random) -> tuple[str, str]:
    """Two different names of locales."""
    first, second = rng.sample(LOCALES, 2)
    return first, second
