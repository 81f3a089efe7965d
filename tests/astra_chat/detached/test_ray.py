"""--judge ray on a cluster of raylets whose stand-in GPUs are virtual: kinds, leases, and kills of
a worker, a machine and the chat, after which the results are those of an undisturbed run."""

from __future__ import annotations

import os
import random
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

from astra_chat.detached import ray_client
from astra_chat.detached.carrying import Carrier, Destination
from astra_chat.detached.packing import pack_job
from astra_chat.detached.ray_client import Cluster, RayClient, connected
from astra_chat.tools.task.folder import Task
from astra_chat.transcript.run_folder import TRANSCRIPT
from astra_vgpu.ground.errors import AstraError, BadInput
from tests.astra_chat.cli.test_judge_jobs import SHORT, verdicts
from tests.astra_chat.detached.test_ray_client import WANTED
from tests.astra_chat.detached.test_ray_worker import until
from tests.astra_chat.job_samples import put

pytestmark = [
    pytest.mark.second_tier,
    pytest.mark.skipif(
        find_spec("ray") is None, reason="Ray is not installed: pip install 'astra-chat[ray]'"
    ),
]
ASTRA = [sys.executable, "-m", "astra_chat"]
KILLS = 30
TIE = SHORT.replace("vector.cu", "scalar.cu").replace('"accepted"', '"tie"')
"""Two evaluations: nothing is confirmed."""
STORE = {"object_store_memory": 80 * 2**20}


@dataclass
class Raylets:
    """A cluster on this machine: a head without a GPU, machines with virtual ones, one of another
    kind."""

    cluster: Any
    nodes: list[Any] = field(default_factory=list)
    other_kind: Any = None

    @property
    def address(self) -> str:
        return str(self.cluster.address)

    @property
    def pids(self) -> dict[int, Any]:
        """Process numbers of the raylets, with their nodes."""
        return {
            node.all_processes["raylet"][0].process.pid: node
            for node in self.nodes
            if node.any_processes_alive()
        }

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
        "health_check_initial_delay_ms": 0,
        "health_check_period_ms": 500,
        "health_check_timeout_ms": 1000,
        "health_check_failure_threshold": 3,
    }
    head = {"num_cpus": 1, "num_gpus": 0, "include_dashboard": False, "_system_config": settings}
    cluster = RayCluster(initialize_head=True, head_node_args={**head, **STORE})
    found = Raylets(cluster)
    try:
        found.add("virtual")
        found.add("virtual")
        found.other_kind = found.add("h100")
        yield found
    finally:
        cluster.shutdown()


def test_a_kind_that_nobody_has_is_an_error_at_once(raylets: Raylets) -> None:
    words = r"^--judge ray:\S+: no machine .* of kind h200; the cluster has: 1 h100, 2 virtual"
    with pytest.raises(BadInput, match=words):
        Carrier(Destination("ray", raylets.address), "h200").require(WANTED)
    Carrier(Destination("ray", raylets.address), "virtual").require(WANTED)


def test_a_hung_kernel_is_killed_with_its_worker(
    raylets: Raylets, task: Task, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A job is ended after its limit, and nothing of it keeps running. Each is on a worker of its
    own, also where one ends before the other begins."""
    monkeypatch.setattr(ray_client, "ATTEMPTS", 1)
    source = (task.folder / "baseline.cu").read_text() + f"// {tmp_path.name}\n"
    pack_job(put(tmp_path / "jobs", task, source), tmp_path / "jobs.zip")
    packed, failures = (tmp_path / "jobs.zip").read_bytes(), list[str]()
    met: set[int] = set()

    def judge() -> None:
        try:
            RayClient(Cluster(ray, "virtual"), trust=False, limit_s=2.0).judged(packed)
        except AstraError as error:
            failures.append(str(error))

    with connected(raylets.address) as ray:
        clients = [threading.Thread(target=judge) for _ in range(2)]
        for client in clients:
            client.start()
        while any(client.is_alive() for client in clients):
            met.update(worker for _, worker, _ in raylets.judging())
            time.sleep(0.05)
    assert len(failures) == 2 and all("and its worker was killed" in one for one in failures)
    assert len(met) == 2
    until(lambda: not raylets.judging())


@dataclass
class Chat:
    """A run on the cluster, and the same one undisturbed on this machine."""

    raylets: Raylets
    task: Path
    folder: Path
    script: str = SHORT
    seen: set[int] = field(default_factory=set)
    """Processes of judges that were met."""

    def __post_init__(self) -> None:
        (self.task / "script" / "script.toml").write_text(self.script)
        assert self.start(self.folder / "a").wait() == 0

    @property
    def path(self) -> Path:
        return self.folder / "b" / TRANSCRIPT

    @property
    def judged(self) -> int:
        return self.path.read_text().count('"kind":"judged"') if self.path.exists() else 0

    def start(self, out: Path, *more: str) -> subprocess.Popen[bytes]:
        words = ["--models", "scripted", "--device", "virtual", "--rounds", "1", "--mutants", "0"]
        return subprocess.Popen(
            [*ASTRA, "run", str(self.task), *words, "--quiet", "--out", str(out), *more]
        )

    def on_ray(self) -> subprocess.Popen[bytes]:
        """The run on the cluster, begun or resumed."""
        judge = ["--judge", f"ray:{self.raylets.address}"]
        if not self.judged:
            shutil.rmtree(self.path.parent, ignore_errors=True)
            return self.start(self.path.parent, *judge)
        resumed = [*ASTRA, "run", "--resume", str(self.path), "--quiet", *judge]
        return subprocess.Popen(resumed)

    def next_job(
        self, chat: subprocess.Popen[bytes], when: Callable[[], bool] = lambda: True
    ) -> tuple[int, int, int] | None:
        """A job that has begun and was not met before; None: the run has ended."""
        while chat.poll() is None:
            ready = when()  # asked first: of the job before no process is left then
            found = [one for one in self.raylets.judging() if one[0] not in self.seen]
            if found and ready:
                assert self.raylets.pids[found[0][2]] is not self.raylets.other_kind
                self.seen.add(found[0][0])
                return found[0]
            time.sleep(0.05)
        return None

    def job(
        self, chat: subprocess.Popen[bytes], after: int, delay_s: float = 0.5
    ) -> tuple[int, int, int]:
        """The job after so many evaluations, a little into it."""
        found = self.next_job(chat, lambda: self.judged == after)
        assert found is not None, "the run ended early"
        time.sleep(delay_s)
        return found

    def kill_machine(self, raylet: int) -> None:
        self.raylets.pids[raylet].kill_raylet()
        until(lambda: raylet not in self.raylets.pids)

    def require_undisturbed(self) -> None:
        """Nothing runs any more, and the results are those of the other run."""
        until(lambda: not any(Path(f"/proc/{one}").exists() for one in self.seen))
        out, other = self.path.parent, self.folder / "a"
        assert verdicts(out) == verdicts(other)
        assert len(verdicts(out)) == (2 if self.script == TIE else 3)
        best = [folder / "best.cu" for folder in (out, other) if self.script != TIE]
        assert len({path.read_text() for path in best}) == bool(best)


def test_kills_change_nothing(raylets: Raylets, task_folder: Path, tmp_path: Path) -> None:
    """A worker, a machine and the chat are killed, one after the other; the run ends as one that
    nobody disturbed, and nothing was judged on the other kind of GPU."""
    run = Chat(raylets, task_folder, tmp_path, TIE)
    chat = run.on_ray()
    _, worker, _ = run.job(chat, 0)
    os.kill(worker, signal.SIGKILL)
    _, _, raylet = run.job(chat, 1)
    run.kill_machine(raylet)
    run.job(chat, 1)
    chat.kill()
    chat.wait()
    assert run.on_ray().wait() == 0
    run.require_undisturbed()


@pytest.mark.in_full
@pytest.mark.parametrize("seed", [7])
def test_thirty_kills_change_nothing(
    raylets: Raylets, task_folder: Path, tmp_path: Path, seed: int
) -> None:
    """Kills come at random points; where three attempts in a row are lost, the run stops and is
    resumed."""
    draws, kills = random.Random(seed), 0
    run = Chat(raylets, task_folder, tmp_path)
    while kills < KILLS:
        shutil.rmtree(run.path.parent, ignore_errors=True)
        while True:
            chat = run.on_ray()
            while (found := run.next_job(chat)) is not None and kills < KILLS:
                time.sleep(draws.uniform(0, 8))
                kills += kill_one(run, chat, found, draws.choice(["worker", "machine", "chat"]))
            code = chat.wait()
            assert code in (0, 4, -signal.SIGKILL)
            if code == 0:
                break
        run.require_undisturbed()
        assert subprocess.run([*ASTRA, "verify", str(run.path.parent)], check=False).returncode == 0


def kill_one(
    run: Chat, chat: subprocess.Popen[bytes], job: tuple[int, int, int], victim: str
) -> bool:
    """Whether there was something to kill."""
    _, worker, raylet = job
    if chat.poll() is not None or raylet not in run.raylets.pids:
        return False
    if victim == "chat":
        chat.kill()
        chat.wait()
    elif victim == "machine":
        run.raylets.add("virtual")
        run.kill_machine(raylet)
    else:
        with suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    return True
