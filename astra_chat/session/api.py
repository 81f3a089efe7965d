"""A run from the user's options: what `astra-chat run` and `from astra_chat import run` do."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import wraps
from pathlib import Path
from typing import Any, ParamSpec, Unpack

from astra_chat.options import RunArguments, takes
from astra_chat.session.request import request_for, split
from astra_chat.session.results import RunResult
from astra_chat.session.resume import past_of, request_on
from astra_chat.session.run_events import RunEvents, Silent
from astra_chat.session.session import run_request
from astra_chat.session.signals import StopRun
from astra_chat.session.telemetry import traced
from astra_chat.transcript.recorded_task import task_of

P = ParamSpec("P")


@takes(RunArguments)
def run(
    task: str | Path | None = None,
    *,
    events: RunEvents | None = None,
    stop: StopRun | None = None,
    **given: Unpack[RunArguments],
) -> RunResult:
    """Run a chat about a shipped task or a task folder, as `astra-chat run` does; `given`: its
    options (docs/options.md), None what is not given.

    `resume` continues a run in its transcript; `branch`, or either with `after_round`, continues
    it in a new one. Then `task` may be omitted, and options that are None keep their values.
    Models, addresses, key variables and budgets that a transcript records are taken over with
    `accept_recorded_options` only, trust and paths never (recorded_options.py). 0 for `stop_at` and
    `patience`, "none" for `budget` and `approver` switch off what a resumed run was begun with.
    With `judge` "detached" evaluations become jobs in the run's folder, and the run stops, to be
    resumed, until `astra-chat judge work` has judged them. "ssh:HOST" and "ray[:ADDRESS]" have
    these jobs judged there while the run goes on; the transcript records "detached" alone.
    `events` hears of each record of the transcript once it is in the file (run_events.py).
    `stop`: call it from another thread to stop the run, which then returns and can be resumed.
    Raises BadInput for what cannot be used and MissingDependency for a missing dependency.
    An interrupted run returns: its summary says so.
    """
    options, session = split(given, task)
    past = past_of(given["resume"], given["branch"], given["after_round"])
    listener = traced(events or Silent())
    if past is None:
        return run_request(request_for(options, session), listener, stop=stop)
    with task_of(past.transcript, task) as recorded_task:
        request = request_on(past, recorded_task, options, session)
        if past.transcript.options.trust and not options.trust:
            listener.notice(
                f"{past.transcript.path} records --trust, which Astra never takes from a file"
            )
        return run_request(request, listener, past=past, stop=stop)


def _awaitable(
    work: Callable[P, RunResult],
) -> Callable[P, Coroutine[Any, Any, RunResult]]:
    """Returns a coroutine function that does the work in a thread of its own, for programs that
    have an event loop."""

    @wraps(work)
    async def later(*args: P.args, **options: P.kwargs) -> RunResult:
        stop = options.setdefault("stop", StopRun())
        running = asyncio.ensure_future(asyncio.to_thread(work, *args, **options))
        try:
            return await asyncio.shield(running)
        except asyncio.CancelledError:
            assert isinstance(stop, StopRun)
            stop()
            await asyncio.wait([running])
            raise

    return later


arun = _awaitable(run)
"""`run` to be awaited: the same arguments. Cancelling it stops the run, which can be resumed."""
