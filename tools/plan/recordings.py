"""Which recordings of a launcher are made: processes, and the calls of each.

Processes: one that makes all cases three times in drawn orders, twice with the same addresses; one
that makes all cases with other addresses of arguments and variables, and again where numbers round
otherwise; and a few that make one drawn case alone. Each process has an environment and a locale of
its own, each recording a floating-point state (below). A plan is what all of them agree on.
"""

from __future__ import annotations

import random
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from astra_chat.tools.plan.process import Recording, Surroundings
from astra_chat.tools.plan.stand_ins import Addresses, Buffers, draw_addresses, draw_variables
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import call_values
from astra_chat.tools.types import Case
from astra_vgpu.ground.cubin import CubinVariable

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
