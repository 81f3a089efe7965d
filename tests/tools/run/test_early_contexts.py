"""GPUs opened in processes that wait: one after another, under the lease, by no one twice."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Event

import pytest

from astra_chat.tools.run import early_contexts
from astra_chat.tools.run.early_contexts import EarlyContexts
from astra_chat.tools.system.subprocesses import Stop, Worker

OPENS = """
import time
from astra_chat.tools.system.reporter import Reporter
opened = []
def open_gpu(index):
    if index == 9:
        raise RuntimeError("out of memory")
    if index == 8:
        time.sleep(60)
    opened.append(index)
reporter = Reporter(open_gpu)
reporter.send("found", opened=opened, request=reporter.request)
"""


@pytest.fixture
def start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[], Worker]]:
    (tmp_path / "opens.py").write_text(OPENS)
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{os.environ.get('PYTHONPATH', '')}")
    with ExitStack() as ended:
        yield lambda: ended.enter_context(Worker("opens"))


def free(held: list[str] | None = None) -> Callable[[Stop], AbstractContextManager[None]]:
    """A lease that nobody else wants; `held` gets a word when it is taken and given back."""

    @contextmanager
    def leased(_: Stop) -> Iterator[None]:
        (held if held is not None else []).append("taken")
        yield
        (held if held is not None else []).append("given back")

    return leased


def asked(worker: Worker) -> dict[str, object]:
    worker.ask({"case": 1}, 60.0, Stop())
    (found,) = worker.reports()
    worker.finish()
    return found


def test_a_claimed_process_is_open_or_never_will_be(start: Callable[[], Worker]) -> None:
    held = list[str]()
    contexts = EarlyContexts(3, free(held), lambda _: "")
    workers = [start() for _ in range(3)]
    for worker in workers:
        contexts.open(worker)
    assert contexts.claim(workers[2])  # perhaps before its turn came
    if contexts._thread:
        contexts._thread.join(60.0)
    assert all(map(contexts.claim, workers[:2]))
    assert [asked(worker)["opened"] for worker in workers[:2]] == [[3], [3]]
    last = asked(workers[2])
    assert last["request"] == {"case": 1} and last["opened"] in ([], [3])
    assert held[:2] == ["taken", "given back"]


def test_nothing_is_opened_while_another_has_the_gpu(start: Callable[[], Worker]) -> None:
    wanted, over = Event(), Event()

    @contextmanager
    def leased(_: Stop) -> Iterator[None]:
        wanted.set()
        assert over.wait(60.0)
        yield

    contexts, worker = EarlyContexts(0, leased, lambda _: ""), start()
    contexts.open(worker)
    assert wanted.wait(60.0) and contexts.claim(worker)
    assert asked(worker)["opened"] == []
    over.set()


@pytest.mark.parametrize(("index", "why"), [(9, "out of memory"), (8, "did not answer in 1 s")])
def test_one_that_fails_or_hangs_is_named_and_no_more_are_tried(
    start: Callable[[], Worker],
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    index: int,
    why: str,
) -> None:
    monkeypatch.setattr(early_contexts, "OPEN_S", 1.0 if index == 8 else 60.0)
    contexts, (first, second) = EarlyContexts(index, free(), lambda _: ""), (start(), start())
    contexts.open(first)
    assert contexts._thread
    contexts._thread.join(60.0)
    contexts.open(second)
    assert not contexts.claim(first) and contexts.claim(second)
    assert f"process {first.pid} could not open GPU {index} early" in caplog.text
    assert why in caplog.text
    assert asked(second)["opened"] == []


def test_a_gpu_without_room_is_named(
    start: Callable[[], Worker], caplog: pytest.LogCaptureFixture
) -> None:
    contexts, worker = EarlyContexts(0, free(), lambda _: "GPU 0 has 3.0 GiB free"), start()
    contexts.open(worker)
    if contexts._thread:
        contexts._thread.join(60.0)
    assert contexts.claim(worker) and asked(worker)["opened"] == []
    assert "GPU 0 has 3.0 GiB free: contexts are created on demand" in caplog.text
