"""What a transcript records: our own values, so that reading one back needs neither AutoGen nor
torch."""

from __future__ import annotations

from typing import Annotated, Final, Literal, TypeAlias, get_args

from pydantic import ConfigDict, Field, field_validator

from astra_chat.agents.turn_order import Decision, StopReason
from astra_chat.agents.turns import Speaker, TextPayload
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.types import Basis, Device, Seconds, Value
from astra_chat.transcript.options import OneLine, RecordedOptions
from astra_chat.transcript.spending import ModelCall, Spent

VERSION: Final = 2
"""Version of the format. Lines of older versions are migrated (reader.py); newer ones are
refused."""

EndReason: TypeAlias = StopReason | Literal["interrupted", "waiting", "budget", "error"]
BROKEN_OFF: tuple[EndReason, ...] = ("interrupted", "waiting", "budget", "error")
"""Ends after which a run can be resumed."""


class TaskRecord(Value):
    """The task as it was judged; the contents of its files are in Blob events."""

    name: str
    id: str
    files: dict[str, str]
    """sha256 of each file of the task folder, by name."""


class GitState(Value):
    """The checkout from which Astra ran."""

    commit: str
    dirty: bool


class Origin(Value):
    """Where a run branched off: it begins with the other run's turns up to this point."""

    run: str
    turn: int
    """Number of turns taken over."""
    rounds: int
    """Rounds begun within them."""


class RepeatedRun(Value):
    """The recorded run whose replies a run's roles repeat."""

    run: str
    started: str
    """UTC, ISO 8601."""
    models: str
    answered_by: str = ""
    """The live models, or who answered from a mailbox; "" if no model was live."""
    best: str = ""
    """The winner; "" if nothing was faster, and in old transcripts."""
    ratio: float | None = None
    basis: Basis | None = None
    rounds: int = 0
    """Its number of rounds at most; 0 in old transcripts."""


class Header(Value):
    """First line of every transcript."""

    kind: Literal["header"] = "header"
    started: str
    """UTC, ISO 8601."""
    versions: dict[str, str]
    device: Device
    options: RecordedOptions
    git: GitState | None
    task: TaskRecord
    origin: Origin | None = None
    repeats: RepeatedRun | None = None


class Blob(Value):
    """A text stored once under its hash: a task file or a candidate's source."""

    kind: Literal["blob"] = "blob"
    sha256: str
    text: str


class Chosen(Value):
    """Who speaks next, and whether a rule or a model chose."""

    kind: Literal["chosen"] = "chosen"
    decision: Decision


class ChatMessage(Value):
    """A turn without a kernel: a request, cases, scores, a plan, an analysis, a pass, an
    approval."""

    kind: Literal["message"] = "message"
    speaker: Speaker
    payload: Annotated[TextPayload, Field(discriminator="kind")]


class Proposed(Value):
    """A turn that proposed a kernel."""

    kind: Literal["proposed"] = "proposed"
    speaker: Speaker
    words: str
    candidate: str
    """First 12 hex digits of `sha256`."""
    sha256: str
    """sha256 of the source, whose text is in a Blob."""
    edits: int = 0
    """Number of edits in the reply; 0: it was a whole file."""


class BuildDone(Value):
    """The executor's first turn on a kernel: guard and build."""

    kind: Literal["build"] = "build"
    report: BuildReport


class Judged(Value):
    """The executor's turn on a kernel, or the baseline, that was run."""

    kind: Literal["judged"] = "judged"
    evaluation: Evaluation


class RejectedReply(Value):
    """A model's reply could not be used and was sent back with the reason."""

    kind: Literal["rejected_reply"] = "rejected_reply"
    speaker: Speaker
    reason: str


class Contradiction(Value):
    """A usable reply contradicts the facts: a plan's anchor or metric, a profiler's evidence."""

    kind: Literal["contradiction"] = "contradiction"
    speaker: Speaker
    reason: str
    stands: bool
    """Whether the model repeated its reply, which is then accepted; otherwise the reply was sent
    back once."""


class Deviation(Value):
    """A kernel's result differed from what its script, or the recorded run, expects."""

    kind: Literal["deviation"] = "deviation"
    candidate: str
    expected: str
    found: str


class Resumed(Value):
    """An interrupted or killed run continues from its last finished turn."""

    kind: Literal["resumed"] = "resumed"
    started: str
    """UTC, ISO 8601."""
    versions: dict[str, str]
    git: GitState | None
    options: RecordedOptions
    """The run's options from this line on."""


class Ended(Value):
    """Last line of every run that was not killed; a resumed run continues after it."""

    kind: Literal["ended"] = "ended"
    reason: EndReason
    words: str
    best: str | None
    """The accepted candidate with the highest speedup."""
    ratio: float | None
    basis: Basis | None
    error: str = ""
    """Class and message where `reason` is "error"."""
    seed: str = ""
    """Root seed of everything that the judge drew in this session; recorded only at the end,
    because the hidden cases follow from it. Empty in old transcripts."""
    question: str = ""
    """Id of the question in a mailbox whose answer the run waits for."""
    job: str = ""
    """sha256 of the job whose result the run waits for (detached/jobs.py)."""


class Unknown(Value):
    """An event of a newer Astra, kept as it is."""

    model_config = ConfigDict(extra="allow")

    kind: str

    @field_validator("kind")
    @classmethod
    def _is_unknown(cls, kind: str) -> str:
        if kind in KINDS:
            raise ValueError(f"not a valid event of kind {kind}")
        return kind


KnownEvent = Annotated[
    Header
    | Blob
    | Chosen
    | ChatMessage
    | Proposed
    | BuildDone
    | Judged
    | RejectedReply
    | Contradiction
    | Deviation
    | Resumed
    | ModelCall
    | Spent
    | Ended,
    Field(discriminator="kind"),
]
KINDS: Final = frozenset(
    one.model_fields["kind"].default for one in get_args(get_args(KnownEvent)[0])
)
"""Kinds of the events that this version knows."""
Event = Annotated[KnownEvent | Unknown, Field(union_mode="left_to_right")]
TurnEvent: TypeAlias = ChatMessage | Proposed | BuildDone | Judged
"""Events that are turns of the chat."""


class Record(Value):
    """One line of a transcript."""

    v: Literal[2] = VERSION
    run: OneLine
    """Name of the run, the same on every line."""
    seq: int
    """0, 1, 2, ... without gaps."""
    t: Seconds
    """Seconds since the run began."""
    turn: int = Field(ge=0)
    """Number of turns recorded so far, including this one."""
    event: Event
