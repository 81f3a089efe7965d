"""Processes that a server forks: sandboxed, clean, single-use, and gone with their judge."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from astra_chat.tools.sandbox.isolation import isolation
from astra_chat.tools.sandbox.policy import SandboxPolicy, package_roots
from astra_chat.tools.system.forked import ForkServer
from astra_chat.tools.system.process_tree import kill_family
from astra_chat.tools.system.subprocesses import Stop, Worker
from tests.many_files import many_open

pytestmark = pytest.mark.skipif(
    isolation() != "landlock", reason="only where Landlock isolates, and no bubblewrap"
)
LOOKS = """
import os, pathlib, signal
from astra_chat.tools.system.reporter import Reporter
seen = []
def main():
    reporter, found = Reporter(), {}
    for name, path in reporter.request.items():
        try:
            found[name] = pathlib.Path(path).read_text()
        except OSError as error:
            found[name] = type(error).__name__
    seen.append(os.getpid())
    reporter.send("found", found=found, environment=dict(os.environ), ids=[os.getpid(),
        os.getppid()], earlier=len(seen) - 1, files=sorted(map(int, os.listdir("/proc/self/fd"))))
    print("its last words", flush=True)
    os.kill(os.getpid(), signal.SIGSEGV)
"""
WAITS = "import time\nfrom astra_chat.tools.system.reporter import Reporter\n" + (
    "def main():\n    Reporter().send('waits')\n    time.sleep(600)\n"
)


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> ForkServer:
    """One that serves two modules of a folder beside the checkout."""
    modules = tmp_path / "modules"
    modules.mkdir()
    (modules / "looks.py").write_text(LOOKS)
    (modules / "waits.py").write_text(WAITS)
    monkeypatch.setenv("PYTHONPATH", f"{modules}:{os.environ.get('PYTHONPATH', '')}")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    return ForkServer(("looks", "waits"))


def policy(tmp_path: Path) -> SandboxPolicy:
    (scratch := tmp_path / "scratch").mkdir(exist_ok=True)
    return SandboxPolicy(read=(tmp_path / "modules",), write=(scratch,))


def test_a_server_that_was_begun_starts_what_is_asked_of_it(
    server: ForkServer, tmp_path: Path
) -> None:
    """It is not started twice."""
    environment = {name: os.environ[name] for name in ("PATH", "PYTHONPATH")}
    server.begin(environment)
    begun = server._server
    server.begin(environment)
    with Worker("waits", sandbox=policy(tmp_path), server=server) as worker:
        worker.ask({}, 60.0, Stop())
        assert next(worker.reports())["kind"] == "waits"
    assert begun is not None and server._server is begun


def runs(pid: str) -> bool:
    """Whether a process is there, and has not merely to be waited for."""
    try:
        return Path("/proc", pid, "stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def test_each_is_new_and_walled(server: ForkServer, tmp_path: Path) -> None:
    (hidden := tmp_path / "hidden").write_text("expected results")
    asked = {"own": str(tmp_path / "modules" / "looks.py"), "hidden": str(hidden)}
    ids = []
    for _ in range(2):
        with Worker("looks", sandbox=policy(tmp_path), server=server) as worker:
            worker.ask(asked, 60.0, Stop())
            (found,) = worker.reports()
            end = worker.finish()
        assert found["found"] == {"own": LOOKS, "hidden": "PermissionError"}
        assert "OPENAI_API_KEY" not in found["environment"]
        assert found["environment"]["TMPDIR"] == str(tmp_path / "scratch")
        assert found["earlier"] == 0, "a process is for one request"
        assert found["files"][:4] == [0, 1, 2, 3] and len(found["files"]) == 5, "and the listing"
        assert end.returncode == -signal.SIGSEGV and "its last words" in end.output
        ids.append(found["ids"])
    (first, by), (second, by_the_same) = ids
    assert first != second and by == by_the_same != os.getpid()


def test_files_of_high_numbers(server: ForkServer, tmp_path: Path) -> None:
    """The judge's and the server's end of their line, too, are beyond what select() takes."""
    with many_open(), Worker("looks", sandbox=policy(tmp_path), server=server) as worker:
        worker.ask({}, 60.0, Stop())
        assert [report["kind"] for report in worker.reports()] == ["found"]
        assert worker.finish().returncode == -signal.SIGSEGV


def test_a_server_that_is_killed_ends_what_it_started_and_is_replaced(
    server: ForkServer, tmp_path: Path
) -> None:
    with Worker("waits", sandbox=policy(tmp_path), server=server) as worker:
        worker.ask({}, 60.0, Stop())
        assert next(worker.reports())["kind"] == "waits"
        assert server._server is not None
        server._server.kill()
        end = worker.finish()
    assert end.returncode == -signal.SIGKILL
    with Worker("waits", sandbox=policy(tmp_path), server=server) as worker:
        worker.ask({}, 60.0, Stop())
        assert next(worker.reports())["kind"] == "waits"


JUDGE = """
import os, signal
from pathlib import Path
from astra_chat.tools.sandbox.policy import SandboxPolicy, package_roots
from astra_chat.tools.system.forked import ForkServer
from astra_chat.tools.system.subprocesses import Stop, Worker
place, server = Path.cwd(), ForkServer(("waits",))
sandbox = SandboxPolicy(read=(place / "modules",), write=(place / "scratch",))
worker = Worker("waits", sandbox=sandbox, server=server)
worker.ask({}, 60.0, Stop())
next(worker.reports())
print(server._server.pid, worker._child.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def test_all_end_with_their_judge(server: ForkServer, tmp_path: Path) -> None:
    (tmp_path / "scratch").mkdir()
    paths = os.pathsep.join([os.environ["PYTHONPATH"], *map(str, package_roots())])
    judge = subprocess.run(
        [sys.executable, "-c", JUDGE],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        check=False,
    )
    assert judge.returncode == -signal.SIGKILL, judge.stderr
    pids, deadline = judge.stdout.split(), time.monotonic() + 30
    assert len(pids) == 2
    try:
        while any(map(runs, pids)):
            assert time.monotonic() < deadline, "they outlive their judge"
            time.sleep(0.02)
    finally:
        for pid in map(int, pids):
            kill_family(pid)
