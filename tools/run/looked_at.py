"""Runs that several threads look at, in the runs' order: NumPy lets go of the interpreter while it
works on large arrays."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Generator, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from functools import cache
from typing import TypeVar

from astra_chat.tools.run.case_run import CaseRun
from astra_chat.tools.run.failures import Failure
from astra_chat.tools.system.cores import cores
from astra_chat.tools.task.folder import Task

MOST_THREADS = 8
"""Each has the arrays of a case in memory."""
SMALL_BYTES = 2**16
"""A smaller case is looked at at once: to hand it over takes as long."""
T = TypeVar("T")
Looked = tuple[CaseRun, T] | tuple[Failure, None]


def looked_at(
    task: Task, runs: Generator[CaseRun | Failure], look: Callable[[CaseRun], T]
) -> Generator[Looked[T]]:
    """Yields each run with what `look` says of it, or the failure; in their order, whatever the
    number of threads. `look` changes nothing. Once a run's successor is asked for, its files are
    gone; what was begun ahead is dropped where nobody asks for it."""
    waiting = deque[tuple[CaseRun | Failure, Future[T] | None]]()
    most, pool = 2 * _threads(), _pool()
    with closing(runs):
        try:
            for run in runs:
                waiting.append((run, _begun(pool, task, run, look)))
                while waiting and (len(waiting) > most or _is_done(waiting[0][1])):
                    yield from _next(waiting)
            while waiting:
                yield from _next(waiting)
        finally:
            for run, future in waiting:
                if future and not future.cancel():
                    future.exception()
                if isinstance(run, CaseRun):
                    run.remove()


def _next(waiting: deque[tuple[CaseRun | Failure, Future[T] | None]]) -> Iterator[Looked[T]]:
    run, future = waiting[0]
    if not isinstance(run, CaseRun):
        waiting.popleft()
        yield run, None
        return
    assert future is not None, "every run was checked"
    found = future.result()
    try:
        yield run, found
    finally:
        waiting.popleft()
        run.remove()


def _begun(
    pool: ThreadPoolExecutor, task: Task, run: CaseRun | Failure, look: Callable[[CaseRun], T]
) -> Future[T] | None:
    if not isinstance(run, CaseRun):
        return None
    if task.least_bytes(run.oracle_case.case) >= SMALL_BYTES:
        return pool.submit(look, run)
    done = Future[T]()
    try:
        done.set_result(look(run))
    except Exception as error:
        done.set_exception(error)
    return done


def _is_done(future: Future[T] | None) -> bool:
    return future is None or future.done()


def _threads() -> int:
    return min(MOST_THREADS, cores())


@cache
def _pool() -> ThreadPoolExecutor:
    return ThreadPoolExecutor(_threads(), "astra-look")
