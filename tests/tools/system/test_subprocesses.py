"""Children: limits hold, the whole group dies, the environment is an allow-list."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from astra_chat.tools.sandbox.policy import SandboxPolicy
from astra_chat.tools.system.subprocesses import (
    TAIL_BYTES,
    Cancelled,
    StepTimeout,
    Stop,
    Worker,
    child_environment,
    run_limited,
    signal_name,
)
from astra_vgpu.ground.errors import AstraError, MissingDependency
from tests.many_files import many_open
from tests.sources import IMPORT_PATH

GIB = 2**30


def run(tmp_path: Path, script: str, timeout_s: float = 20.0, stop: Stop | None = None):  # type: ignore[no-untyped-def]
    return run_limited(
        ["/bin/sh", "-c", script],
        timeout_s=timeout_s,
        memory_bytes=GIB,
        cwd=tmp_path,
        stop=stop or Stop(),
    )


def test_status_and_output_come_back(tmp_path: Path) -> None:
    done = run(tmp_path, "echo out; echo err >&2; exit 3")
    assert (done.returncode, sorted(done.output.split())) == (3, ["err", "out"])


def test_a_flood_keeps_only_its_tail(tmp_path: Path) -> None:
    done = run(tmp_path, "yes flood | head -c 3000000; echo end")
    assert len(done.output) <= TAIL_BYTES and done.output.endswith("end\n")


def test_a_timeout_kills_the_whole_group(tmp_path: Path) -> None:
    """Each process of the group holds a pipe open: its end comes when all are gone."""
    os.mkfifo(tmp_path / "pipe")
    reader = os.open(tmp_path / "pipe", os.O_RDONLY | os.O_NONBLOCK)
    with pytest.raises(StepTimeout):
        run(tmp_path, "exec 3>pipe; (sleep 30; echo survived >&3) & sleep 60", timeout_s=1.0)
    os.set_blocking(reader, True)
    assert os.read(reader, 100) == b""
    os.close(reader)


def test_memory_is_limited(tmp_path: Path) -> None:
    done = run(tmp_path, "python3 -c 'x = bytearray(3 * 2**30)'")
    assert done.returncode != 0 and "MemoryError" in done.output


def test_stop_from_another_thread(tmp_path: Path) -> None:
    """Once it runs; where it is not stopped, its own limit ends it with another exception."""
    os.mkfifo(tmp_path / "pipe")
    stop = Stop()

    def stopped() -> None:
        with (tmp_path / "pipe").open() as pipe:
            assert pipe.readline() == "running\n"
        stop.set()

    thread = threading.Thread(target=stopped)
    thread.start()
    with pytest.raises(Cancelled):
        run(tmp_path, "echo running >pipe; sleep 60", stop=stop)
    thread.join()


def test_no_key_reaches_a_child(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    assert "OPENAI_API_KEY" not in child_environment()
    assert "secret" not in run(tmp_path, "env").output


def test_a_hanging_child_does_not_outlive_a_killed_judge(tmp_path: Path) -> None:
    (tmp_path / "hangs.py").write_text(
        "import os\nfrom astra_chat.tools.system.reporter import Reporter\n"
        "Reporter().send('here', pid=os.getpid())\nwhile True: pass\n"
    )
    judge = (
        "from astra_chat.tools.system.subprocesses import Stop, Worker\n"
        "worker = Worker('hangs')\nworker.ask({}, 60.0, Stop())\n"
        "for report in worker.reports(): print(report['pid'], flush=True)\n"
    )
    paths = os.pathsep.join([str(tmp_path), IMPORT_PATH])
    with subprocess.Popen(
        [sys.executable, "-c", judge],
        stdout=subprocess.PIPE,
        text=True,
        env={**os.environ, "PYTHONPATH": paths},
    ) as parent:
        assert parent.stdout is not None
        child = Path("/proc") / parent.stdout.readline().strip()
        assert child.is_dir()
        parent.kill()
    deadline = time.monotonic() + 120
    while child.is_dir() and "Z" not in (child / "stat").read_text().split(")")[1][:3]:
        assert time.monotonic() < deadline, "it works on for nobody"
        time.sleep(0.1)


def test_children_of_a_judge_with_many_open_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    body = "from astra_chat.tools.system.reporter import Reporter\nReporter().send('here')\n"
    (tmp_path / "lucky.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with many_open():
        assert run(tmp_path, "exit 3").returncode == 3
        with Worker("lucky") as worker:
            worker.ask({}, 60.0, Stop())
            assert [report["kind"] for report in worker.reports()] == ["here"]
            assert worker.finish().returncode == 0


def test_signal_names() -> None:
    assert signal_name(-11).startswith("killed by SIGSEGV (")
    assert signal_name(3) == "exit status 3"


def died_at_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, body: str) -> AstraError:
    """What is said of a worker whose module does this when it is loaded."""
    (tmp_path / "unlucky.py").write_text(body)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with Worker("unlucky") as worker:
        worker.ask({}, 60.0, Stop())
        assert list(worker.reports()) == []
        with pytest.raises(AstraError) as caught:
            worker.finish()
    assert "\n" not in str(caught.value) and "Traceback" not in str(caught.value)
    return caught.value


def test_a_library_that_a_child_lacks_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = died_at_start(tmp_path, monkeypatch, "import no_such_library\n")
    assert isinstance(error, MissingDependency)
    assert "unlucky did not start: No module named 'no_such_library'; reinstall" in str(error)


def test_another_end_at_the_start_is_our_mistake_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = died_at_start(tmp_path, monkeypatch, "raise RuntimeError('a\\nb')\n")
    assert not isinstance(error, MissingDependency)
    assert "unlucky did not start: b (--log-level debug" in str(error)
    ended = died_at_start(tmp_path, monkeypatch, "import os; os.abort()\n")
    assert "unlucky did not start" in str(ended)


@pytest.mark.parametrize("sandbox", [None, SandboxPolicy()])
def test_a_missing_program_is_named(sandbox: SandboxPolicy | None, tmp_path: Path) -> None:
    command = [str(tmp_path / "nvcc"), "--version"]
    with pytest.raises(MissingDependency, match=f"program {command[0]} not found.*doctor"):
        run_limited(command, timeout_s=5, cwd=tmp_path, stop=Stop(), sandbox=sandbox)


@pytest.mark.parametrize("does", ["time.sleep(2)", "spin()"])
def test_where_only_work_counts_a_child_that_waits_is_not_late(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, does: str
) -> None:
    """Both take longer than their limit; only one of them uses the processor so long."""
    (tmp_path / "slow.py").write_text(
        "import time\nfrom astra_chat.tools.system.reporter import Reporter\n"
        "reporter = Reporter()\n"
        "def spin():\n    while time.process_time() < 30: pass\n"
        f"{does}\nreporter.send('done')\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with Worker("slow") as worker:
        worker.ask({}, 1.0, Stop(), only_work=True)
        if "spin" in does:
            with pytest.raises(StepTimeout):
                list(worker.reports())
        else:
            assert [report["kind"] for report in worker.reports()] == ["done"]


def test_what_the_judge_does_between_reports_is_not_the_childs_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It compares for longer than the child may run; a child that does not end is late still."""
    (tmp_path / "quick.py").write_text(
        "import time\nfrom astra_chat.tools.system.reporter import Reporter\n"
        "reporter = Reporter()\nreporter.send('one')\ntime.sleep(0.5)\n"
        "reporter.send('two')\ntime.sleep(600)\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    seen = []
    with Worker("quick") as worker:
        worker.ask({}, 600.0, Stop())
        with pytest.raises(StepTimeout):
            for report in worker.reports():
                seen.append(report["kind"])
                if report["kind"] == "one":
                    worker.allow(2.0, Stop())
                    time.sleep(2.5)
    assert seen == ["one", "two"]


def test_reports_made_just_before_the_end_are_not_lost(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The judge's thread sleeps between its wait for a report and its look at the child: as long as
    the child has to live."""
    (tmp_path / "brief.py").write_text(
        "import time\nfrom astra_chat.tools.system.reporter import Reporter\n"
        "reporter = Reporter()\ntime.sleep(0.3)\nreporter.send('done')\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
    with Worker("brief") as worker:
        worker.ask({}, 60.0, Stop())
        monkeypatch.setattr(worker._child, "poll", lambda: worker._child.wait(60))
        assert [report["kind"] for report in worker.reports()] == ["done"]
        worker.finish()


def test_ctrl_c_ends_what_threads_wait_for(tmp_path: Path) -> None:
    """A pool waits for its threads whatever is raised, and they for their children."""
    stop = Stop()
    with (
        pytest.raises(KeyboardInterrupt),
        ThreadPoolExecutor() as pool,
        stop.on_ctrl_c(),
    ):
        waiting = pool.submit(run, tmp_path, "sleep 60", 60.0, stop)
        raise KeyboardInterrupt
    assert isinstance(waiting.exception(), Cancelled)
