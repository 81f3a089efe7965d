"""`astra-chat advance`: resumes the runs whose results are there, one after the other."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Annotated, Any

import typer

from astra_chat.cli.exit_codes import CHECK_FAILED, INTERRUPTED, WAITING
from astra_chat.cli.options import JsonOption, RunsArgument, TrustOption
from astra_chat.display.notes import note

if TYPE_CHECKING:
    from astra_chat.session.advance import DetachedRun

SCHEMA = "astra-chat/advanced/1"


def register(main: typer.Typer) -> None:
    main.command(short_help="Resume all runs whose results have arrived.")(advance)


def advance(
    folders: RunsArgument,
    models: Annotated[
        str | None, typer.Option(help="Model backend for all these runs, as for `run`.")
    ] = None,
    accept_recorded_options: Annotated[
        bool,
        typer.Option(
            "--accept-recorded-options",
            help="Use the models, addresses, key variables and budgets recorded in each run.",
        ),
    ] = False,
    trust: TrustOption = False,
    as_json: JsonOption = False,
) -> None:
    """Resume the runs in DIR for which `astra-chat judge work` has results, and those that were
    killed; then print what each run is waiting for.

    Exit code 4: a run is waiting. If a run fails, the others continue, and this command exits with
    the failed run's exit code.
    """
    from astra_chat.session.advance import detached_runs

    options = {
        "models": models,
        "accept_recorded_options": accept_recorded_options,
        "trust": trust,
    }
    worst, rows = 0, []
    for one in detached_runs(folders):
        after, code = _resumed(one, options) if one.ready else (one, 0)
        waits = WAITING if after.state in ("waiting", "running") else 0
        worst = max(worst, code, key=_weight)
        worst = max(worst, waits, key=_weight)
        rows.append({"transcript": str(after.path), "state": after.state, "words": after.words})
        if not as_json:
            said = after.words.lower().startswith(
                after.state
            )  # "Waiting until ...": no "waiting: "
            state = "" if said else f"{after.state}: "
            print(f"{after.path}: {state}{after.words}", flush=True)
        if code == INTERRUPTED:
            break
    if as_json:
        print(json.dumps({"schema": SCHEMA, "runs": rows}, indent=2))
    elif not rows:
        note("no run with --judge detached was found there")
    if worst:
        raise typer.Exit(worst)


def _weight(code: int) -> int:
    """An interruption says more than a failure, that more than waiting."""
    order = (0, WAITING, 1, 2, 3, INTERRUPTED)
    return order.index(code) if code in order else order.index(3)


def _resumed(one: DetachedRun, options: dict[str, Any]) -> tuple[DetachedRun, int]:
    """Where a run stands after it was resumed, and the exit code of a failure."""
    from astra_chat.session.advance import standing_of
    from astra_chat.session.api import run
    from astra_vgpu.ground.errors import failure

    try:
        result = run(resume=one.path, **options)
        ended = result.summary.ended
        codes = {"interrupted": INTERRUPTED, "baseline_failed": CHECK_FAILED}
        code = codes.get(ended.reason, 0) if ended is not None else 0
    except Exception as error:
        words, code = failure(error)
        for line in (f"{one.path}: {words}", *getattr(error, "__notes__", ())):
            note(line)
    return standing_of(one.path) or one, code
