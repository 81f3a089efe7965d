"""The judge of a run by its options: on this machine, or by jobs that another one judges."""

from __future__ import annotations

from astra_chat.agents.turns import Turns
from astra_chat.detached.asking import DetachedJudge, close_jobs, wanted_of
from astra_chat.detached.carrying import carrier_for
from astra_chat.session.request import Request
from astra_chat.session.run_events import RunEvents
from astra_chat.session.signals import ChatLoop
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.ranks.judge import judge_of
from astra_chat.tools.tuning.tuning_judge import TuningJudge
from astra_chat.transcript.run_folder import JOBS
from astra_vgpu.ground.toolkit import find_tool


def judge_for(
    request: Request, events: RunEvents, loop: ChatLoop, past: Turns
) -> TuningJudge | DetachedJudge:
    """It reports from its thread to the chat's, where all else is shown. `past`: the turns before.

    Raises BadInput and MissingDependency.
    """
    detached, carrier = request.options.judge == "detached", None
    if detached and request.place is not None:
        device = request.device
        carrier = carrier_for(request.place, device.kind, device.spec, request.options.trust)
        carrier.require(wanted_of(device))
    if request.device.kind == "cuda" and request.limits.confirmations and not detached:
        find_tool("compute-sanitizer")  # a winner passes it: better no run than none confirmed
    judge = judge_of(
        request.task,
        request.device,
        tier=request.options.tier,
        cases=request.options.cases,
        trust=request.options.trust,
        entropy=request.entropy,
        on_progress=lambda report: loop.call(events.progress, report),
    )
    if detached:
        judged = sum(isinstance(turn.payload, Evaluation) for turn in past)
        return DetachedJudge(judge, request.options.cases, judged, carrier)
    if request.folder is not None:  # it may have been begun with --judge detached
        close_jobs(request.folder / JOBS, "The run now judges on its own machine.")
    judge.prepare()
    return judge
