"""A recorded run held again: its models say what they said, and the judge of this machine works.

`rejudge` asks about each candidate alone; this holds the whole chat, in the turn order of today,
and leaves a transcript of its own.
"""

from __future__ import annotations

import json
from pathlib import Path

from astra_chat.agents.judge_protocol import JudgeProtocol
from astra_chat.replay.rejudge import RecordedCandidate, Rejudged, recorded, rejudged_document
from astra_chat.session.request import SessionOptions, request_for
from astra_chat.session.results import RunResult
from astra_chat.session.run_events import RunEvents, Silent
from astra_chat.session.session import run_request
from astra_chat.session.telemetry import traced
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.recorded_cases import require_bounded_cases
from astra_chat.transcript.recorded_task import require_hashes, task_of
from astra_chat.transcript.summary import RunSummary

SCHEMA = "astra-chat/rerun/1"


def rerun(
    transcript: Transcript,
    device: str = "auto",
    out: Path | None = None,
    trust: bool = False,
    events: RunEvents | None = None,
    judge: JudgeProtocol | None = None,
) -> RunResult:
    """Hold the chat again with the recorded task, words, limits and decisions of a human.

    Where a verdict is another, the turn order goes its own way, and a role that said nothing at
    that place passes. `judge` stands in for the task's own. Raises BadInput where a recorded text
    is not the one that its hash names, and what a run raises.
    """
    require_hashes(transcript)
    before = transcript.options
    spec = transcript.header.device.spec if device == "virtual" else None
    with task_of(transcript, None) as task:
        models = f"transcript:{transcript.path}"
        budget = f"evaluations={before.evaluations}" if before.evaluations else ""
        options = before.model_copy(
            update={"models": models, "budget": budget, "trust": trust, "judge": "local"}
        )
        session = SessionOptions(
            task=task.folder,
            device=device,
            gpu=spec,
            out=out,
            approver=str(transcript.path) if before.approval else None,
        )
        request = request_for(options, session)
        require_bounded_cases(transcript, task, request.device.kind, trust)
        return run_request(request, traced(events or Silent()), judge)


def compared(then: Transcript, now: Path) -> tuple[list[Rejudged], list[str]]:
    """Candidates that both runs judged, then and now; and those that the second did not come to."""
    again = {(one.candidate, one.confirms): one for one in recorded(read(now))}
    both, missing = [], []
    for one in recorded(then):
        found = again.get((one.candidate, one.confirms))
        if found is not None:
            both.append(_beside(one, found))
        elif one.candidate not in missing:
            missing.append(one.candidate)
    return both, missing


def rerun_json(
    summary: RunSummary, transcript: Path, both: list[Rejudged], missing: list[str]
) -> str:
    """Everything as one JSON document; field `schema` names the form."""
    each = [rejudged_document(one) for one in both]
    return json.dumps(
        {
            "schema": SCHEMA,
            "run": summary.model_dump(mode="json"),
            "transcript": str(transcript),
            "rejudged": each,
            "not_reached": missing,
        },
        indent=2,
    )


def _beside(then: RecordedCandidate, now: RecordedCandidate) -> Rejudged:
    return Rejudged(
        candidate=then.candidate,
        confirms=then.confirms,
        then_device=then.device,
        then=then.outcome,
        now_device=now.device,
        now=now.outcome,
    )
