"""Jobs to the workers of a Ray cluster, for one evaluation: the command behind `--judge ray`, in a
process of its own, which a lost cluster may end. stdin and stdout as of `judge answer`.

Ray places the workers, one a GPU, and says which machines live. What is tried again, and what
counts, is decided here: each attempt has a lease of its own, and only the live one's results are
ever read. Ray itself repeats nothing.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import socket
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from astra_chat.detached.answering import at_end_of, own_stdout, read_framed
from astra_chat.detached.ray_worker import GpuWorker, jobs_at_once
from astra_chat.display.notes import note
from astra_chat.tools.entropy import nonce
from astra_chat.tools.judge_version import judge_sha256
from astra_chat.tools.text import one_line
from astra_vgpu.ground.errors import AstraError, BadInput, MissingDependency, failure

LABEL = "astra-gpu"
"""Label of a node, as in `ray start --labels astra-gpu=h200`: the kind of its GPUs, a key in
astra_vgpu/ground/gpu_specs.py; "virtual" for stand-ins."""
RAYS_LABEL = "ray.io/accelerator-type"
"""Label that Ray itself gives a node: its kind of GPU, as "H200" is."""
ATTEMPTS = 3
LIMIT_S = 3600.0
"""Seconds of one attempt at most: a worker that holds a job longer is killed, its kernel hangs."""
CALL_S = 20.0
"""Seconds in which a worker has to answer; one that does not is lost."""
LOOK_S = 0.5
TOLD_S = 10.0


class Lost(Exception):
    """A worker, or its machine, is gone; the text says how."""


class NobodyWaits(Exception):
    """Stdin has ended."""


def gpus_of(node: Mapping[str, Any]) -> tuple[str, int]:
    """The kind of a node's GPUs, and how many it has."""
    labels = node.get("Labels") or {}
    kind = labels.get(LABEL) or labels.get(RAYS_LABEL) or "unknown"
    return str(kind).lower(), int((node.get("Resources") or {}).get("GPU", 0))


class Machine(NamedTuple):
    """A machine of the cluster with GPUs of the wanted kind."""

    gpus: int
    jobs_at_once: int
    """Jobs that each of its GPUs takes at a time."""


@dataclass
class Cluster:
    """The workers of a cluster that have one kind of GPU."""

    ray: Any
    gpu: str
    _workers: dict[tuple[str, int], Any] = field(default_factory=dict)

    def nodes(self) -> dict[str, Machine]:
        """Returns the living nodes with GPUs of this kind, by node. Raises BadInput where nobody
        has one."""
        found: dict[str, Machine] = {}
        kinds: Counter[str] = Counter()
        for node in self.ray.nodes():
            kind, count = gpus_of(node)
            if node.get("Alive") and count:
                kinds[kind] += count
                if kind == self.gpu:
                    jobs = jobs_at_once(node["Resources"].get("CPU", 0), count)
                    found[str(node["NodeID"])] = Machine(count, jobs)
        if found:
            return found
        others = ", ".join(f"{count} {kind}" for kind, count in sorted(kinds.items()))
        raise BadInput(
            f"no machine in the cluster has a GPU of kind {self.gpu}; the cluster has:"
            f" {others or 'none'} (to set a machine's kind: ray start --labels"
            f" {LABEL}={self.gpu})"
        )

    def free(self) -> list[tuple[int, Any]]:
        """Returns workers that would take a job, and how many: those with the fewest first, the
        others in no order, so that two who ask at once do not ask the same."""
        asked = {}
        for node, machine in self.nodes().items():
            for place in range(machine.gpus):
                with contextlib.suppress(self.ray.exceptions.RayError, ValueError):
                    worker = self._worker(node, place, machine.jobs_at_once)
                    asked[worker.free.remote()] = worker
        if not asked:
            return []
        ready, _ = self.ray.wait(list(asked), num_returns=len(asked), timeout=CALL_S / 4)
        found = []
        for ref in ready:
            with contextlib.suppress(self.ray.exceptions.RayError):
                found.append((int(self.ray.get(ref)), asked[ref]))
        found.sort(key=lambda one: (-one[0], nonce()))
        return [(free, worker) for free, worker in found if free > 0]

    def _worker(self, node: str, place: int, jobs: int) -> Any:
        """The actor of a GPU, shared by all who ask; one that died is made again."""
        scheduling = self.ray.util.scheduling_strategies.NodeAffinitySchedulingStrategy
        actor = self.ray.remote(GpuWorker).options(
            name=f"{self.gpu}-{node[:16]}-{place}",
            get_if_exists=True,
            lifetime="detached",
            num_gpus=1,
            num_cpus=0,
            max_restarts=0,
            max_task_retries=0,
            scheduling_strategy=scheduling(node, soft=False),
        )
        return actor.remote("virtual" if self.gpu == "virtual" else "cuda", jobs)

    def ask(self, ref: Any) -> Any:
        """Returns what a worker answers. Raises Lost."""
        try:
            return self.ray.get(ref, timeout=CALL_S)
        except self.ray.exceptions.GetTimeoutError:
            raise Lost(f"a worker did not answer within {CALL_S:.0f} s") from None
        except self.ray.exceptions.RayError as error:
            raise Lost(f"{type(error).__name__}: {one_line(str(error))[:200]}") from None

    def kill(self, worker: Any) -> None:
        """Kill a worker with all that it runs: the stdin of its jobs ends."""
        with contextlib.suppress(self.ray.exceptions.RayError, ValueError):
            self.ray.kill(worker, no_restart=True)


@dataclass
class RayClient:
    """Has one evaluation made by a cluster."""

    cluster: Cluster
    trust: bool
    gone: threading.Event = field(default_factory=threading.Event)
    """Set when nobody waits any more."""
    limit_s: float = LIMIT_S

    def judged(self, packed: bytes) -> bytes:
        """Returns the results of the first attempt that ends.

        Raises AstraError when ATTEMPTS are lost, BadInput when the last such GPU is, NobodyWaits.
        """
        why = ""
        for attempt in range(1, ATTEMPTS + 1):
            worker, lease = self._begun(packed)
            try:
                return self._followed(worker, lease)
            except Lost as lost:
                why = str(lost)
                note(f"attempt {attempt} failed: {why}")
        raise AstraError(f"{ATTEMPTS} attempts failed; the last one: {why}")

    def _begun(self, packed: bytes) -> tuple[Any, str]:
        """Returns a worker that has begun, and the lease under which it has."""
        told_s = time.monotonic()
        while True:
            for free, worker in self.cluster.free():
                lease = nonce()
                with contextlib.suppress(Lost):
                    begins = worker.start.remote(lease, packed, self.trust, free)
                    if self.cluster.ask(begins):
                        return worker, lease
            self._wait()
            if time.monotonic() - told_s > TOLD_S:
                told_s = time.monotonic()
                note(f"all GPUs of kind {self.cluster.gpu} are busy")

    def _followed(self, worker: Any, lease: str) -> bytes:
        """Returns the results under a lease. Raises Lost and NobodyWaits; the lease has ended in
        any case."""
        began_s = time.monotonic()
        try:
            while time.monotonic() - began_s < self.limit_s:
                state, results, told = self.cluster.ask(worker.look.remote(lease))
                if state == "done":
                    return bytes(results)
                if state != "running":
                    words = [line for line in told.splitlines() if line.strip()]
                    raise Lost(words[-1] if words else "its worker ended the lease")
                self._wait()
        finally:
            with contextlib.suppress(Lost):
                self.cluster.ask(worker.end.remote(lease))
        self.cluster.kill(worker)
        raise Lost(f"it took more than {self.limit_s:.0f} s, and its worker was killed")

    def _wait(self) -> None:
        if self.gone.wait(LOOK_S):
            raise NobodyWaits


@contextlib.contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, joined to a cluster. Raises MissingDependency."""
    try:
        import ray
        import ray.util.scheduling_strategies
    except ImportError:
        raise MissingDependency("Ray is not installed: pip install 'astra-chat[ray]'") from None
    _require_reachable(address)
    try:
        ray.init(
            address=address or "auto",
            namespace=f"astra-{judge_sha256()[:16]}",
            log_to_driver=False,
            logging_level="ERROR",
            configure_logging=True,
        )
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        where = f"at {address}" if address else "on this machine: start one with ray start --head"
        reason = one_line(str(error))[:200]
        raise MissingDependency(f"no Ray cluster {where} ({reason})") from None
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_reachable(address: str) -> None:
    """Raise MissingDependency, sooner than Ray gives up and in one line, where nobody listens."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    if host and port.isdecimal():
        try:
            socket.create_connection((host.strip("[]"), int(port)), timeout=10).close()
        except OSError as error:
            words = error.strerror or str(error)
            raise MissingDependency(f"no Ray cluster at {address}: {words}") from None


def run(arguments: Sequence[str]) -> int:
    """Judge the jobs on stdin. Raises AstraError."""
    parser = argparse.ArgumentParser(prog="ray_client")
    parser.add_argument("--address", default="")
    parser.add_argument("--gpu", required=True)
    parser.add_argument("--trust", action="store_true")
    parser.add_argument(
        "--check", action="store_true", help="only check whether the cluster has such a GPU"
    )
    given = parser.parse_args(arguments)
    results = own_stdout()
    packed = b"" if given.check else read_framed(sys.stdin.buffer)
    gone = threading.Event()
    done = threading.Event() if given.check else at_end_of(sys.stdin.buffer, gone.set)
    with connected(given.address) as ray:
        cluster = Cluster(ray, given.gpu)
        cluster.nodes()
        if given.check:
            return 0
        try:
            found = RayClient(cluster, given.trust, gone).judged(packed)
        except NobodyWaits:
            return 130
        done.set()
        with results:
            results.write(found)
    return 0


def main() -> None:
    try:
        code = run(sys.argv[1:])
    except (AstraError, OSError) as error:
        words, code = failure(error)
        note(words)
    sys.stderr.flush()
    os._exit(code)  # nothing of Ray's threads is waited for


if __name__ == "__main__":
    main()
