"""Continuing from a transcript, which is all that a run needs of its past: the task, the turns, the
options. A resumed run appends to it; a branch takes turns over into a transcript of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from astra_chat.agents.limits import Limits
from astra_chat.agents.run_state import RunState, state_of, states
from astra_chat.agents.turn_order import STOP_TEXTS, Ask, Stop, acts_as, next_step
from astra_chat.agents.turns import Turn
from astra_chat.session.recorded_options import accepted
from astra_chat.session.request import NOBODY, Request, SessionOptions, request_for
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.recordings.reading import in_archive
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import Device
from astra_chat.transcript.events import (
    BROKEN_OFF,
    Deviation,
    Origin,
    Record,
    TurnEvent,
)
from astra_chat.transcript.options import RunOptions, option_name
from astra_chat.transcript.reader import Transcript, read, unknown_kinds
from astra_chat.transcript.recorded_cases import require_bounded_cases
from astra_chat.transcript.recorded_task import require_hashes
from astra_chat.transcript.run_folder import require_no_links
from astra_chat.transcript.turns import finished, turns_of
from astra_vgpu.ground.errors import BadInput

NO_LIMITS = Limits(rounds=10**9)


@dataclass(frozen=True)
class Past:
    """What a run continues from."""

    transcript: Transcript
    branched: tuple[Record, ...] | None = None
    """The records that a branch takes over; None where the transcript itself is resumed."""
    after_round: int | None = None
    """The round that a branch continues from, where the user named one."""

    @property
    def command(self) -> list[str]:
        """The words by which the user named it."""
        path = str(self.transcript.path)
        if self.branched is None:
            return ["--resume", path]
        after = [] if self.after_round is None else ["--from", str(self.after_round)]
        return ["--branch", path, *after]

    @property
    def turns(self) -> list[Turn]:
        """The turns before."""
        return turns_of(self.transcript.records if self.branched is None else self.branched)

    def state(self, limits: Limits | None = None) -> RunState:
        """What is known after these turns."""
        return state_of(self.turns, limits)

    @property
    def origin(self) -> Origin | None:
        """Where a branch comes from."""
        if self.branched is None:
            return None
        run = self.transcript.records[0].run
        return Origin(run=run, turn=len(self.turns), rounds=len(self.state().rounds))


def past_of(
    resume: str | Path | None, branch: str | Path | None, after_round: int | None
) -> Past | None:
    """What --resume, --branch and --from ask for. Raises BadInput."""
    if resume is not None and branch is not None:
        raise BadInput(
            "--resume appends to a transcript and --branch starts another: give only one of them"
        )
    if after_round is not None and resume is None and branch is None:
        raise BadInput("--from ROUND requires --branch FILE or --resume FILE")
    if resume is not None and after_round is None:
        return resumed(Path(resume))
    file = branch if resume is None else resume
    return None if file is None else branched(Path(file), after_round)


def resumed(path: Path) -> Past:
    """Resume an interrupted or killed run. Raises BadInput if it cannot be read or appended to."""
    if in_archive(path):
        raise BadInput(
            f"{path} is in an archive and cannot be appended to: --branch {path} starts a new run"
        )
    return Past(_whole(path))


def _whole(path: Path) -> Transcript:
    """A chat that is continued has to be known in full. Raises BadInput."""
    transcript = read(path)
    if unknown := unknown_kinds(transcript):
        raise BadInput(f"{unknown}; resume with the version of Astra that wrote them")
    return transcript


def branched(path: Path, rounds: int | None) -> Past:
    """Continue from the end of a round, 0 being the baseline's, or from the last finished turn.

    Raises BadInput if the transcript cannot be read or did not finish that round.
    """
    transcript = _whole(path)
    kept = finished(transcript.records)
    kept = kept if rounds is None else _until(transcript, kept, rounds)
    return Past(transcript, tuple(kept), rounds)


def at_end(past: Past, limits: Limits) -> Stop | None:
    """Why nothing is left to be done; None: something is."""
    step, ended = next_step(past.state(limits)), past.transcript.ended
    broken_off = past.branched is None and (ended is None or ended.reason in BROKEN_OFF)
    return step if isinstance(step, Stop) and not broken_off else None


def _require_more(past: Past, limits: Limits) -> None:
    """Raise BadInput where nothing is left to be done."""
    if (step := at_end(past, limits)) is None:
        return
    ways = {
        "rounds": f"--rounds {limits.rounds + 1}",
        "evaluations": f"--budget evaluations={(limits.evaluations or 0) + 1}",
    }
    way = f"{ways[step.reason]} continues it; " if step.reason in ways else ""
    raise BadInput(
        f"{past.transcript.path} is finished: {STOP_TEXTS[step.reason]};"
        f" {way}--branch FILE --from ROUND continues from an earlier round"
    )


def _require_device(past: Past, device: Device, judge: str) -> None:
    """Raise BadInput unless results of this device can be compared with the recorded ones. Of one
    on another machine the driver's name is not known."""
    before = past.transcript.header.device
    unknown = {"index": before.index, **({"name": before.name} if judge == "detached" else {})}
    if device.model_copy(update=unknown) != before:
        raise BadInput(
            f"{past.transcript.path} was judged on {before.name}, not on {device.name}:"
            " figures from two devices cannot be compared"
        )


FIXED = ("cases", "tier", "strategy")
"""Options that a run keeps: figures under other ones cannot be compared."""


def request_on(
    past: Past, task: Task, given: RunOptions | None = None, session: SessionOptions | None = None
) -> Request:
    """The recorded request, changed by the options that were given.

    Raises BadInput naming the option that may not change, or that only the user may set, or where
    nothing is left to be done.
    """
    given, session = given or RunOptions(), session or SessionOptions()
    transcript, recorded = past.transcript, past.transcript.options
    for name in FIXED:
        value, kept = getattr(given, name), getattr(recorded, name)
        if name in given.model_fields_set and value != kept:
            was = f"was recorded with {kept}" if kept else "left the choice to the device"
            option = f"{option_name(name)} {value}"
            raise BadInput(f"{option}: {transcript.path} {was}, which cannot be changed")
    if past.branched is None and session.out is not None:
        raise BadInput("--out requires --branch: a resumed run stays in its folder")
    if session.memory is not None:
        raise BadInput("--memory: a recorded run keeps the cards that its first turn contains")
    approver = _approver(past, session)
    here = {
        "task": task.folder,
        "approver": approver,
        "out": session.out if past.branched is not None else transcript.path.parent,
    }
    if session.device is None and session.gpu is None:
        judge = given.judge if "judge" in given.model_fields_set else recorded.judge
        here |= _named(transcript.header.device, judge)
    options = accepted(given, session, recorded, transcript.path, past.command)
    _require_more(past, _limits(options, approver))
    request = request_for(options, session.model_copy(update=here))
    _require_device(past, request.device, options.judge)
    require_hashes(transcript)
    require_bounded_cases(transcript, task, request.device.kind, options.trust)
    if past.branched is None:
        require_no_links(transcript.path.parent, task.entry)
    judged = sum(isinstance(turn.payload, Evaluation) for turn in past.turns)
    return replace(request, entropy=request.entropy.after(judged))


def _limits(options: RunOptions, approver: str | None) -> Limits:
    """What the run will be held to; before a device is looked for, which may not be there."""
    asks = "" if approver in (None, NOBODY) else "decisions"
    return options.model_copy(update={"approval": asks}).limits


def _approver(past: Past, session: SessionOptions) -> str | None:
    """--approver for a run that is resumed. Whether a human may be asked was said at its begin;
    NOBODY switches that off, and another name on again."""
    path, state = past.transcript.path, past.state()
    begun = bool(past.transcript.header.options.approval)
    if state.request is not None and state.request.approval != begun:
        raise BadInput(f"{path} contradicts itself about who approves candidates")
    if session.approver == NOBODY:
        return None
    if session.approver is not None:
        if not begun:
            raise BadInput(
                f"--approve: {path} was started without approval; only a new run can ask"
            )
        if state.approve_all:
            raise BadInput(
                f"--approver: {path} already approves all further candidates, so nothing would be"
                " asked; --branch FILE --from ROUND resumes before that"
            )
        return session.approver
    recorded = past.transcript.options.approval
    if recorded == "decisions":
        raise BadInput(f"{path} took its decisions from a file: give that file with --approver")
    return recorded or None


def _named(device: Device, judge: str) -> dict[str, str | None]:
    """--device and --gpu for a recorded device."""
    if device.kind == "virtual" or judge == "detached":
        return {"device": device.kind, "gpu": device.spec}
    return {"device": f"cuda:{device.index}", "gpu": None}


def _until(transcript: Transcript, kept: list[Record], rounds: int) -> list[Record]:
    """The records up to the planner's turn after a round; without it, up to the round's end."""
    planners = _planner_turns(kept)
    if 0 <= rounds < len(planners):
        end = planners[rounds]
        while not isinstance(kept[end - 1].event, TurnEvent | Deviation):
            end -= 1
        return kept[:end]
    state = state_of(turns_of(kept), NO_LIMITS)
    step, begun = next_step(state), len(state.rounds)
    between = isinstance(step, Stop) or (isinstance(step, Ask) and step.acts_as == "planner")
    if rounds == begun and between:
        return kept
    last = begun if between else max(0, begun - 1)
    raise BadInput(
        f"--from {rounds}: {transcript.path} has finished rounds 0{f' to {last}' if last else ''}"
    )


def _planner_turns(kept: Sequence[Record]) -> list[int]:
    """Places of the turns that begin a round, or give up on one: the planner's, and those of
    `single` in its place."""
    turns = turns_of(kept)
    places = [i for i, record in enumerate(kept) if isinstance(record.event, TurnEvent)]
    return [
        place
        for place, turn, before in zip(places, turns, states(turns, NO_LIMITS), strict=False)
        if turn.speaker == "planner"
        or (turn.speaker == "single" and acts_as("single", before) == "planner")
    ]
