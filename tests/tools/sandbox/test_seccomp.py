"""The filters as programs: every refusal answers, every jump lands inside."""

from __future__ import annotations

import errno
import struct
import subprocess
import sys

import pytest

from astra_chat.tools.sandbox import seccomp

CALL = """
import ctypes, os
from astra_chat.tools.sandbox import seccomp
{before}
libc = ctypes.CDLL(None, use_errno=True)
result = libc.syscall({number}, *{arguments})
print(result, ctypes.get_errno())
"""
LOCK, WALL = "seccomp.lock()", "seccomp.wall(network=False)"

pytestmark = pytest.mark.skipif(not seccomp.available(), reason="this kernel has no seccomp")


def answer(before: str, number: int, *arguments: object) -> tuple[int, int]:
    script = CALL.format(
        before=before, number=number, arguments=f"[{', '.join(map(str, arguments))}]"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=60
    )
    result, number = done.stdout.split()
    return int(result), int(number)


@pytest.mark.parametrize("name", ["kill", "tgkill"])
def test_signals_reach_the_process_itself_only(name: str) -> None:
    assert answer(LOCK, seccomp.ON_ITSELF[name], "os.getppid()", 0, 0) == (-1, errno.EPERM)
    if name == "kill":
        assert answer(LOCK, seccomp.ON_ITSELF[name], "os.getpid()", 0) == (0, 0)
        assert answer(LOCK, seccomp.ON_ITSELF[name], 0, 0) == (-1, errno.EPERM)


def test_a_lock_refuses_programs_and_a_wall_does_not() -> None:
    assert answer(LOCK, seccomp.PROGRAMS["execve"], 0, 0, 0) == (-1, errno.EPERM)
    assert answer(WALL, seccomp.PROGRAMS["execve"], 0, 0, 0) == (-1, errno.EFAULT)


PIPE = "ours, pipe = os.pipe()\ntext = ctypes.create_string_buffer(b'x')\nseccomp.lock(pipe)"
VECTOR = "(ctypes.c_uint64 * 2)(ctypes.addressof(text), 1)"


def test_only_writev_writes_to_the_judges_pipe() -> None:
    """Streams of the C library, which a kernel file can turn to any file, use write."""
    for name, number in seccomp.ON_A_FILE.items():
        assert answer(PIPE, number, "pipe", "text", 1) == (-1, errno.EPERM), name
    assert answer(PIPE, seccomp.ON_A_FILE["write"], 1, "text", 0) == (0, 0)
    assert answer(PIPE, 20, "pipe", VECTOR, 1) == (1, 0)


def test_clone3_is_said_not_to_exist() -> None:
    assert answer(LOCK, seccomp.CLONE3, 0, 0) == (-1, errno.ENOSYS)


@pytest.mark.parametrize("before", [LOCK, WALL])
@pytest.mark.parametrize("name", ["socket", "socketpair", "connect"])
def test_no_network(before: str, name: str) -> None:
    assert answer(before, seccomp.NETWORK[name], 2, 1, 0) == (-1, errno.EPERM)


def test_a_profiler_keeps_its_sockets_until_the_lock() -> None:
    before = "seccomp.wall(network=True)"
    assert answer(before, seccomp.NETWORK["socket"], 1, 1, 0)[0] >= 0


@pytest.mark.parametrize("number", sorted({**seccomp.OTHERS, **seccomp.MACHINE}.values()))
def test_each_refusal_answers(number: int) -> None:
    program = [
        *seccomp._head(),
        *seccomp._refusals([number]),
        (seccomp.RETURN, 0, 0, seccomp.ALLOW),
    ]
    assert _interpreted(program, number) == seccomp.ERRNO | errno.EPERM
    assert _interpreted(program, number ^ 0x200) == seccomp.ALLOW
    assert _interpreted(program, number | seccomp.X32_BIT) == seccomp.KILL
    assert _interpreted(program, number, architecture=0x40000003) == seccomp.KILL


def _interpreted(
    program: list[seccomp.Instruction], number: int, architecture: int = seccomp.X86_64
) -> int:
    """Classic BPF on one call, by its definition."""
    data = struct.pack("<II", number, architecture) + bytes(56)
    word, at = 0, 0
    while True:
        code, true, false, value = program[at]
        at += 1
        if code == seccomp.LOAD:
            word = struct.unpack_from("<I", data, value)[0]
        elif code == seccomp.RETURN:
            return value
        else:
            holds = {
                seccomp.IF_EQUAL: word == value,
                seccomp.IF_AT_LEAST: word >= value,
                seccomp.IF_SET: bool(word & value),
            }[code]
            at += true if holds else false
