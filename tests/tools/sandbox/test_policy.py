"""Walls hold against real hostile host code, and honest work passes through them.

Every level that this machine has is tried: bubblewrap where it works, Landlock and seccomp.
"""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import numpy as np
import pytest

from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.check.calls import check
from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.run.oracle import Oracle, OracleCase
from astra_chat.tools.run.protocol import Mode
from astra_chat.tools.run.requests import PATIENCE, RUN_TIMEOUT_S, Batch, Call
from astra_chat.tools.run.runner import Runner
from astra_chat.tools.sandbox import landlock, seccomp
from astra_chat.tools.sandbox import policy as sandbox
from astra_chat.tools.sandbox.isolation import Isolation, bubblewrap
from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.devices import virtual_device
from astra_chat.tools.system.subprocesses import Stop
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.types import BuildFailed, Case, Correct, Crashed, TimedOut
from tests.tools.compile_bomb import BOMB

HERE = Path(__file__).parent
TASK = find_task("silu_and_mul")
DEVICE = virtual_device("h200")
HONEST = (HERE.parent / "kernels" / "scalar.cu").read_text()
REFUSED = (errno.EPERM, errno.EACCES, errno.ENOSYS, errno.ENOENT, errno.EROFS, errno.ESRCH)
ATTEMPTS = {
    1: "fork", 2: "exec", 3: "system", 4: "connect to a socket", 5: "read a file of the user",
    6: "write outside the scratch folder", 7: "signal the parent", 8: "ptrace the parent",
    9: "open the parent's memory", 10: "open the parent's descriptors",
    11: "read the parent's memory", 12: "a fork bomb by clone", 13: "clone3",
    14: "read /etc/passwd", 15: "list the home folder", 16: "leave a file in shared memory",
    17: "leave a System V segment", 18: "chmod a file of the user", 19: "io_uring",
    20: "raise a limit", 21: "a handle on the parent", 22: "slow the parent down",
    23: "delete a file of the user", 24: "read the expected output",
}  # fmt: skip
GRANTED = {30: "a thread", 31: "a signal to itself", 32: "read its input"}

Run = Callable[[int], CaseRun | Failure]


class HostCodeRunner(Runner):
    """Host code of the candidate in the runner process, as on a real GPU (host_code.py)."""

    def run(
        self, build: Build, cases: Sequence[OracleCase], mode: Mode, *_: object, **__: object
    ) -> Iterator[CaseRun | Failure]:
        return self._runs(Batch(build, [Call(one) for one in cases], mode))

    def _module(self) -> str:
        return "host_code"

    def policy(self, read: Sequence[Path], scratch: Path) -> SandboxPolicy:
        return super().policy((*read, HERE), scratch)


@pytest.fixture(autouse=True)
def host_code_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    places = filter(None, [str(HERE), os.environ.get("PYTHONPATH")])
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(places))


def levels() -> list[Isolation]:
    found: list[Isolation] = ["bubblewrap"] if bubblewrap() else []
    return [*found, "landlock"] if seccomp.available() and landlock.abi() else found


@pytest.fixture(params=levels())
def level(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Isolation:
    monkeypatch.setattr(sandbox, "isolation", lambda: request.param)
    return request.param  # type: ignore[no-any-return]


def oracle_case(oracle: Oracle, tokens: int) -> OracleCase:
    case = Case(dims={"tokens": tokens, "d": 8}, dtype="float32")
    return oracle.oracle_cases([case], Stop())[0]


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("user") / "secret"
    path.write_text("key")
    return path


@pytest.fixture(scope="module")
def hostile(oracle: Oracle, secret: Path) -> Build:
    places = {
        "SECRET": secret,
        "STRAY": secret.with_name("stray"),
        "HOME": Path.home(),
        "EXPECTED": oracle_case(oracle, 24).folder / "out.expected",
        "INPUT": oracle_case(oracle, 32).inputs / "input.in",
    }
    defines = "".join(f'#define {name} "{path}"\n' for name, path in places.items())
    built = build(TASK, defines + (HERE / "escape.cu").read_text(), DEVICE)
    assert isinstance(built, Build), built
    return built


@pytest.fixture
def run(level: Isolation, hostile: Build, oracle: Oracle) -> Run:
    def one(which: int) -> CaseRun | Failure:
        return next(
            HostCodeRunner(TASK, DEVICE).run(hostile, [oracle_case(oracle, which)], "check")
        )

    return one


def said(oracle: Oracle, hostile: Build, which: list[int]) -> dict[int, tuple[float, int]]:
    """Result and errno of each attempt, all in one runner."""
    found = {}
    hostile_cases = [oracle_case(oracle, number) for number in which]
    runs = HostCodeRunner(TASK, DEVICE).run(hostile, hostile_cases, "check")
    for number, done in zip(which, runs, strict=True):
        assert isinstance(done, CaseRun), (number, done)
        content = done.after(TASK.args[0])[0].view(np.float32)
        found[number] = (float(content[0]), int(content[1]))
    return found


def test_this_machine_has_a_level_worth_testing() -> None:
    assert levels() or os.uname().sysname != "Linux"


@pytest.mark.second_tier
def test_every_attempt_is_refused(
    level: Isolation, oracle: Oracle, hostile: Build, secret: Path
) -> None:
    found = said(oracle, hostile, list(ATTEMPTS))
    through = {ATTEMPTS[w]: r for w, r in found.items() if r[0] != -1 or r[1] not in REFUSED}
    assert not through or (through.keys() == {"system"} and through["system"][0] == -1)
    assert secret.read_text() == "key" and secret.stat().st_mode & 0o777 != 0o777
    assert not secret.with_name("stray").exists()
    assert not Path("/dev/shm/astra-left-behind").exists()


def test_what_a_runner_needs_is_granted(level: Isolation, oracle: Oracle, hostile: Build) -> None:
    found = said(oracle, hostile, list(GRANTED))
    assert not {GRANTED[w]: r for w, r in found.items() if r[0] < 0}


@pytest.mark.parametrize(
    ("which", "words"),
    [(40, "SIGKILL"), (43, "SIG"), (45, "exit status 0")],
    ids=["kills itself", "100 GB at once", "a forged traceback"],
)
def test_a_violent_end_is_a_value(run: Run, which: int, words: str) -> None:
    outcome = run(which)
    assert isinstance(outcome, Crashed) and words in outcome.message


@pytest.mark.second_tier
@pytest.mark.parametrize(
    "which",
    [41, pytest.param(42, marks=pytest.mark.second_tier)],
    ids=["an endless loop", "a flood of output"],
)
def test_what_never_ends_is_timed_out(
    run: Run, which: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(RUN_TIMEOUT_S, "check", 3.0)
    assert run(which) == TimedOut(step="check", limit_s=3.0 * PATIENCE["virtual"])


@pytest.mark.second_tier
def test_memory_piece_by_piece_ends_too(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        "astra_chat.tools.system.memory_watch.RESIDENT_SHARE", 2**30 / _machine_bytes()
    )
    outcome = run(44)
    assert isinstance(outcome, Crashed) and "memory" in outcome.message


def test_an_honest_kernel_passes_after_all_that(level: Isolation, oracle: Oracle) -> None:
    built = build(TASK, HONEST, DEVICE)
    assert isinstance(built, Build)
    calls = [Call(oracle_case(oracle, 1)), Call(oracle_case(oracle, 30))]
    outcome = check(Runner(TASK, DEVICE), built, calls)
    assert isinstance(outcome, Correct)


@pytest.mark.parametrize(
    "header", ["/etc/passwd", "{secret}", "/proc/self/environ"], ids=["passwd", "user", "environ"]
)
def test_a_build_includes_nothing_of_the_users(level: Isolation, header: str, secret: Path) -> None:
    named = header.format(secret=secret)
    built = build(TASK, f'#include "{named}"\n{HONEST}// {os.urandom(4).hex()}', DEVICE)
    assert isinstance(built, BuildFailed)
    assert "key" not in built.log and "root:" not in built.log and "PATH=" not in built.log


def test_a_compile_bomb_ends(level: Isolation, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("astra_chat.tools.build.nvcc.BUILD_MEMORY_BYTES", 2**30)
    monkeypatch.setattr("astra_chat.tools.build.nvcc.BUILD_TIMEOUT_S", 15.0)
    bomb = f"{BOMB}// {os.urandom(4).hex()}\n"
    assert isinstance(build(TASK, bomb, DEVICE), BuildFailed | TimedOut)


def _machine_bytes() -> int:
    return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
