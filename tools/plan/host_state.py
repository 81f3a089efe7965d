"""The state of the host in which a launcher is recorded: a server may call it in any.

Of each recording: floating-point state, errno, blocked signals. Of each process: environment and
locale. Flushing of denormals and sticky exceptions are set in one of the first two recordings of a
case and clear in the other, so what depends on them differs between the two. Rounding is drawn for
recordings of its own (`rounding.py`): it changes the last bit of what honest launchers compute.
"""

from __future__ import annotations

import random
import string

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
