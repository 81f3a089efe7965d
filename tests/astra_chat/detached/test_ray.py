"""--judge ray on a cluster of raylets whose stand-in GPUs are virtual: kinds, leases, and kills of
a worker, a machine and the chat, after which the results are those of an undisturbed run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from astra_chat.detached import ray_client
from astra_chat.detached.carrying import Carrier, Place
from astra_chat.detached.packing import pack_job
from astra_chat.detached.ray_client import Client, Cluster, connected
from astra_chat.tools.errors import AstraError, BadInput
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.run_folder import TRANSCRIPT
from tests.astra_chat.cli.test_judge_jobs import SHORT, verdicts
from tests.astra_chat.detached.test_ray_worker import until
from tests.astra_chat.job_samples import put

pytest.importorskip("ray", reason="Ray is not installed: pip install 'astra-chat[ray]'")
pytestmark = pytest.mark.second_tier
ASTRA = [sys.executable, "-m", "astra_chat"]
STORE = {"object_store_memory": 80 * 2**20}


@dataclass
class Raylets:
    """A cluster on this machine: a head without a GPU, machines with virtual ones, one of another
    kind."""

    cluster: Any
    nodes: list[Any] = field(default_factory=list)

    @property
    def other_kind(self) -> Any:
        return self.nodes[-1]

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    @property
    def pids(self) -> dict[int, Any]:
        """Of the raylets, with their nodes."""
        return {node.all_processes["raylet"][0].process.pid: node for node in self.nodes
                if node.any_processes_alive()}  # fmt: skip

    def add(self, kind: str) -> Any:
        node = self.cluster.add_node(num_cpus=1, num_gpus=1, labels={"astra-gpu": kind}, **STORE)
        self.nodes.append(node)
        return node

    def judging(self) -> list[tuple[int, int, int]]:
        """Jobs under way: processes of the judge, its worker and the raylet below which it runs."""
        found = []
        for pid in map(int, filter(str.isdecimal, os.listdir("/proc"))):  # noqa: PTH208
            with suppress(OSError, IndexError):
                words = Path(f"/proc/{pid}/cmdline").read_bytes().split(b"\0")
                worker = parent(pid)
                raylet = parent(worker)
                if b"answer" in words and raylet in self.pids:
                    found.append((pid, worker, raylet))
        return found


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


@pytest.fixture(scope="module")
def raylets() -> Iterator[Raylets]:
    """Short health checks: a machine that is gone is noticed in seconds."""
    from ray.cluster_utils import Cluster as RayCluster

    settings = {
        "health_check_initial_delay_ms": 0, "health_check_period_ms": 500,
        "health_check_timeout_ms": 1000, "health_check_failure_threshold": 3,
    }  # fmt: skip
    head = {"num_cpus": 1, "num_gpus": 0, "include_dashboard": False, "_system_config": settings}
    cluster = RayCluster(initialize_head=True, head_node_args={**head, **STORE})
    found = Raylets(cluster)
    try:
        found.add("virtual")
        found.add("virtual")
        found.add("h100")
        yield found
    finally:
        cluster.shutdown()


def test_a_kind_that_nobody_has_is_an_error_at_once(raylets: Raylets) -> None:
    words = r"^--judge ray:\S+: no machine .* of kind h200; there are: 1 h100, 2 virtual"
    with pytest.raises(BadInput, match=words):
        Carrier(Place("ray", raylets.address), "h200").require()
    Carrier(Place("ray", raylets.address), "virtual").require()


def test_a_hung_kernel_is_killed_with_its_worker(
    raylets: Raylets, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """After its limit; nothing of it goes on. Two at once are on two GPUs."""
    monkeypatch.setattr(ray_client, "ATTEMPTS", 1)
    source = (task.folder / "baseline.cu").read_text() + f"// {tmp_path.name}\n"
    pack_job(put(tmp_path / "jobs", task, source), tmp_path / "jobs.zip")
    packed, failures = (tmp_path / "jobs.zip").read_bytes(), list[str]()

    def judge() -> None:
        try:
            Client(Cluster(ray, "virtual"), trust=False, limit_s=2.0).judged(packed)
        except AstraError as error:
            failures.append(str(error))

    with connected(raylets.address) as ray:
        clients = [threading.Thread(target=judge) for _ in range(2)]
        for client in clients:
            client.start()
        until(lambda: len({worker for _, worker, _ in raylets.judging()}) == 2)
        for client in clients:
            client.join()
    assert len(failures) == 2 and all("and its worker was killed" in one for one in failures)
    until(lambda: not raylets.judging())


def test_kills_change_nothing(raylets: Raylets, task_folder: Path, tmp_path: Path) -> None:
    """A worker, a machine and the chat are killed, each in an evaluation of its own; the run ends
    as one that nobody disturbed, and nothing was judged on the other kind of GPU."""
    (task_folder / "script" / "script.toml").write_text(SHORT)
    words = ["--models", "scripted", "--device", "virtual", "--rounds", "1", "--mutants", "0"]
    plain = [*ASTRA, "run", str(task_folder), *words, "--quiet"]
    assert subprocess.run([*plain, "--out", str(tmp_path / "a")], check=False).returncode == 0

    out, judge = tmp_path / "b", ["--judge", f"ray:{raylets.address}"]
    path = out / TRANSCRIPT
    chat = subprocess.Popen([*plain, *judge, "--out", str(out)])
    pid, worker, raylet = next_job(raylets, chat, set())
    os.kill(worker, signal.SIGKILL)
    seen = {pid}
    pid, worker, raylet = next_job(raylets, chat, seen, lambda: judged(path) == 1)
    raylets.pids[raylet].kill_raylet()
    until(lambda: raylet not in raylets.pids)
    seen |= {pid}
    pid, worker, raylet = next_job(raylets, chat, seen, lambda: judged(path) == 2)
    chat.kill()
    chat.wait()
    until(lambda: not any(Path(f"/proc/{one}").exists() for one in (*seen, pid)))
    resumed = [*ASTRA, "run", "--resume", str(path), "--quiet", *judge]
    assert subprocess.run(resumed, check=False).returncode == 0

    assert verdicts(out) == verdicts(tmp_path / "a") and len(verdicts(out)) == 3
    assert (out / "best.cu").read_text() == (tmp_path / "a" / "best.cu").read_text()
    assert subprocess.run([*ASTRA, "verify", str(out)], check=False).returncode == 0
    assert not raylets.judging()


def judged(path: Path) -> int:
    return path.read_text().count('"kind":"judged"') if path.exists() else 0


def next_job(
    raylets: Raylets,
    chat: subprocess.Popen[bytes],
    seen: set[int],
    when: Callable[[], bool] = lambda: True,
) -> tuple[int, int, int]:
    """A job that has begun, a little into it."""
    while True:
        assert chat.poll() is None, "the run ended early"
        ready = when()  # asked first: of the job before no process is left then
        found = [one for one in raylets.judging() if one[0] not in seen]
        if found and ready:
            assert raylets.pids[found[0][2]] is not raylets.other_kind
            time.sleep(0.5)
            return found[0]
        time.sleep(0.05)
