"""`python -m astra_step.serving REQUEST.json`: tokens per second of SGLang's engine or HTTP server,
started several times with and without a package's winners.

The servers of one wave are started together and live side by side; then they are measured by turns,
while the others wait. So what changes on the machine reaches all variants, and each start counts
once: two starts of the same variant differ, too. A line of JSON is written for each start.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

VARIANTS = {"without": "off", "again": "off", "with": "all"}
"""What ASTRA_WINNERS is for each: the first two are the same."""
MARK = "astra-step-serving "
START_S = 240.0


def main() -> int:
    request = json.loads(Path(sys.argv[1]).read_text())
    if len(sys.argv) > 2:
        serve(request, int(sys.argv[2]))
        return 0
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    ended = time.monotonic() + request["limit_s"]
    longest = 0.0
    for wave in range(request["waves"]):
        begun = time.monotonic()
        if begun + longest > ended:
            print(f"no time left for wave {wave + 1}", flush=True)
            break
        measured_wave(request, Path(sys.argv[1]), wave, ended)
        longest = max(longest, time.monotonic() - begun)
    return 0


def measured_wave(request: Mapping[str, Any], path: Path, wave: int, ended: float) -> None:
    """Start the servers of a wave, measure them by turns while there is time, and write a line for
    each; also if this program is stopped, so that no server is left."""
    draws = random.Random(f"{request['seed']} {wave}")
    names = [name for name in VARIANTS for _ in range(request["together"])]
    draws.shuffle(names)
    with tempfile.TemporaryDirectory(prefix="astra-serving-") as folder:
        servers = [
            Started(path, name, Path(folder) / f"counts-{place}", place)
            for place, name in enumerate(names)
        ]
        try:
            for one in servers:
                one.wait()
            for _ in range(request["rounds"]):
                draws.shuffle(servers)
                for one in servers if time.monotonic() < ended else ():
                    one.measure()
        finally:
            for one in servers:
                one.stop()
            with Path(request["out"]).open("a") as out:
                for one in servers:
                    print(json.dumps({"wave": wave, **one.found()}), file=out, flush=True)


class Started:
    """One start of a server, as a child process that measures when it is asked."""

    def __init__(self, path: Path, variant: str, counts: Path, place: int) -> None:
        self._variant, self._counts = variant, counts
        self._rates: dict[str, list[float]] = {}
        self._error = ""
        environment = {
            **os.environ,
            "ASTRA_WINNERS": VARIANTS[variant],
            "ASTRA_WINNERS_COUNTERS": str(counts),
        }
        self._child = subprocess.Popen(
            [sys.executable, "-m", "astra_step.serving", str(path), str(place)],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )

    def wait(self) -> None:
        self._answer()

    def measure(self) -> None:
        """A call of each number of requests; the first round warms up and is discarded."""
        if self._error:
            return
        try:
            assert self._child.stdin is not None
            print("measure", file=self._child.stdin, flush=True)
        except OSError:
            self._error = "it ended"
        for requests, rate in (self._answer() or {}).items():
            self._rates.setdefault(requests, []).append(rate)

    def _answer(self) -> dict[str, float] | None:
        assert self._child.stdout is not None
        for line in self._child.stdout:
            if line.startswith(MARK):
                found: dict[str, float] = json.loads(line.removeprefix(MARK))
                return found
            sys.stderr.write(line)
        self._error = self._error or f"it ended with exit code {self._child.wait()}"
        return None

    def stop(self) -> None:
        """Kill it as engines are killed: by SIGKILL, after which nothing runs."""
        try:
            os.killpg(self._child.pid, 9)
        except ProcessLookupError:
            pass
        self._child.wait()

    def found(self) -> dict[str, Any]:
        took: dict[str, int] = {}
        for file in self._counts.parent.glob(f"{self._counts.name}.*"):
            for line in file.read_text().splitlines():
                count, operator, what, _ = line.split("\t")
                if what == "took":
                    took[operator] = took.get(operator, 0) + int(count)
        rates = {requests: some[1:] for requests, some in self._rates.items()}
        return {"variant": self._variant, "error": self._error, "rates": rates, "took": took}


def serve(request: Mapping[str, Any], place: int) -> None:
    """In a child: start the server, and time its calls when asked."""
    generate = (http_server if request["http"] else engine)(request, place)
    draws = random.Random(request["seed"])
    prompts = {
        requests: [
            [draws.randrange(150_000) for _ in range(request["prompt_tokens"])]
            for _ in range(requests)
        ]
        for requests in request["batches"]
    }
    print(f"{MARK}{{}}", flush=True)
    for _ in sys.stdin:
        found = {}
        for requests, ids in prompts.items():
            begun = time.perf_counter()
            generate(ids)
            seconds = time.perf_counter() - begun
            found[str(requests)] = requests * request["tokens"] / seconds
        print(f"{MARK}{json.dumps(found)}", flush=True)


def sampling(request: Mapping[str, Any]) -> dict[str, Any]:
    return {"temperature": 0, "max_new_tokens": request["tokens"], "ignore_eos": True}


def flags(request: Mapping[str, Any]) -> list[str]:
    """Several servers share the GPU: each takes the memory of its tokens alone."""
    from astra_step.sglang_step import _flags, _model_folder

    folder, _ = _model_folder(request["model"])
    own = _flags(folder, dict(request))
    place = own.index("--mem-fraction-static") + 1
    return [*own[:place], "0.9", *own[place + 1 :]]


def port(place: int) -> int:
    """Engines take other ports, too, up to 1000 above theirs."""
    return 20_000 + 1_500 * place


def engine(request: Mapping[str, Any], place: int) -> Callable[[list[list[int]]], Any]:
    import sglang
    from sglang.srt.server_args import prepare_server_args

    words = [*flags(request), "--port", str(port(place))]
    made = sglang.Engine(server_args=prepare_server_args(words))
    return lambda ids: made.generate(input_ids=ids, sampling_params=sampling(request))


def http_server(request: Mapping[str, Any], place: int) -> Callable[[list[list[int]]], Any]:
    """SGLang's HTTP server, as a process of its own."""
    import urllib.request

    address = f"http://127.0.0.1:{port(place)}"
    words = [*flags(request), "--host", "127.0.0.1", "--port", address.rpartition(":")[2]]
    command = [sys.executable, "-m", "sglang.launch_server", *words, "--skip-server-warmup"]
    server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=sys.stderr)

    def ask(ids: list[list[int]]) -> bytes:
        body = json.dumps({"input_ids": ids, "sampling_params": sampling(request)}).encode()
        head = {"Content-Type": "application/json"}
        asked = urllib.request.Request(f"{address}/generate", body, head)
        with urllib.request.urlopen(asked, timeout=60) as answer:
            content: bytes = answer.read()
        return content

    last = time.monotonic() + START_S
    while True:
        try:
            ask([[1, 2, 3]])
            return ask
        except OSError:
            if server.poll() is not None or time.monotonic() > last:
                raise
            time.sleep(0.5)


if __name__ == "__main__":
    sys.exit(main())
