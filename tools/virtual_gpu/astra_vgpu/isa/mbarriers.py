"""Barriers in shared memory (mbarrier): instruction forms, state bits, fault messages.

An mbarrier is 64 bits that PTX leaves opaque. Here, from bit 0: 20 bits of pending arrivals, 20 of
expected arrivals of each phase, 21 of pending transaction bytes (signed), the parity of the phase,
and a mark that identifies an mbarrier.
"""

from __future__ import annotations

from dataclasses import dataclass

from astra_vgpu.ptx.modifiers import Modifiers
from astra_vgpu.ptx.syntax import Instruction

MOST = (1 << 20) - 1
"""Most arrivals, or bytes, of a phase."""
PENDING, EXPECTED, BYTES, PHASE, MARK = 0, 20, 40, 61, 62
"""First bit of each part."""
SIZE = 8
FAILED_NS = 1000
"""What a failed test takes, by the clock of the kernel and out of its budget of instructions."""
ACTIONS = (
    "init",
    "inval",
    "arrive",
    "arrive_drop",
    "expect_tx",
    "complete_tx",
    "test_wait",
    "try_wait",
    "pending_count",
)

NONE = "no mbarrier at this address: it was not initialized, or it was invalidated"
BAD_COUNT = "a count outside 1 to 1,048,575"
TOO_MANY = "more arrivals than the phase awaits"
COMPLETES = "an arrival marked .noComplete would complete the phase"
TOO_MANY_BYTES = "more than 1,048,575 transaction bytes in one phase"
STALE = (
    "a test of a phase that is neither the current one nor the one before: phases ended without "
    "this thread"
)
UNORDERED = (
    "the mbarrier may not be initialized yet: no barrier orders the initialization before this"
)
MISUSES = (NONE, BAD_COUNT, TOO_MANY, COMPLETES, TOO_MANY_BYTES, STALE)


@dataclass(frozen=True)
class Form:
    """An mbarrier instruction; its operands, which are in PTX's order, are the engine's part."""

    action: str
    space: str
    """shared, or empty for a generic address."""
    no_complete: bool = False
    expects: bool = False
    """arrive.expect_tx: the last operand is bytes, and the count 1."""
    parity: bool = False
    relaxed: bool = False
    """Whether it orders nothing."""


def is_poll(instruction: Instruction) -> bool:
    """A test for a phase's end, at which lanes wait."""
    modifiers = instruction.modifiers
    return instruction.family == "mbarrier" and (
        "test_wait" in modifiers or "try_wait" in modifiers
    )


def has_no_result(instruction: Instruction) -> bool:
    """Whether it is an mbarrier instruction whose first operand is not a destination."""
    if instruction.family != "mbarrier":
        return False
    return not {"arrive", "arrive_drop", "test_wait", "try_wait", "pending_count"}.intersection(
        instruction.modifiers
    )


def form_of(code: Modifiers) -> Form:
    """Takes the modifiers of an mbarrier instruction. Raises PtxUnsupported."""
    action = next((a for a in _BY_NAME if a in code.instruction.modifiers), "")
    if not action:
        raise code.refuse("this instruction")
    code.option(action)
    if action == "pending_count":
        code.type("b64")
        code.count(2)
        return Form(action, "")
    arrives = action in ("arrive", "arrive_drop")
    polls = action in ("test_wait", "try_wait")
    cluster = ("shared::cluster",) if arrives or action.endswith("_tx") else ()
    form = Form(
        action,
        # Without clusters a shared::cluster address is one of the own block.
        "shared" if code.optional("shared::cta", "shared", *cluster) else "",
        no_complete=arrives and code.flag("noComplete"),
        expects=arrives and code.flag("expect_tx"),
        parity=polls and code.flag("parity"),
        relaxed=_relaxed(code, action),
    )
    code.type("b64")
    code.count(*_operands(form))
    return form


_BY_NAME = ("arrive_drop", "arrive", *(a for a in ACTIONS if not a.startswith("arrive")))
"""arrive.expect_tx arrives: `arrive` is looked for first."""


def _relaxed(code: Modifiers, action: str) -> bool:
    if action in ("init", "inval"):
        return False
    order = code.optional("relaxed")
    if not action.endswith("_tx"):
        order = order or code.optional("acquire" if action.endswith("wait") else "release")
    code.optional("cta", "cluster")
    return order == "relaxed" or action.endswith("_tx")


def _operands(form: Form) -> tuple[int, ...]:
    if form.action == "inval":
        return (1,)
    if form.action in ("init", "expect_tx", "complete_tx"):
        return (2,)
    if form.action == "test_wait":
        return (3,)
    if form.action == "try_wait" or form.expects or form.no_complete:
        return (3, 4) if form.action == "try_wait" else (3,)
    return (2, 3)


@dataclass
class MbarrierState:
    pending: int
    expected: int
    bytes: int
    phase: int

    @classmethod
    def of(cls, word: int) -> MbarrierState | None:
        """None if the word is not an mbarrier."""
        if word >> MARK != 1:
            return None
        bytes_ = word >> BYTES & (1 << 21) - 1
        bytes_ -= (bytes_ >> 20) << 21
        return cls(word & MOST, word >> EXPECTED & MOST, bytes_, word >> PHASE & 1)

    @property
    def word(self) -> int:
        bytes_ = self.bytes % (1 << 21)
        return (
            self.pending
            | self.expected << EXPECTED
            | bytes_ << BYTES
            | self.phase << PHASE
            | 1 << MARK
        )

    @property
    def over(self) -> bool:
        return self.pending == 0 and self.bytes == 0

    def token(self, phases: int) -> int:
        """What an arrival returns: the state before it, with the number of phases in place of the
        bytes."""
        return (
            MbarrierState(self.pending, self.expected, 0, self.phase).word
            | (phases & MOST) << BYTES
        )

    def turn(self) -> bool:
        """Begins the next phase if this one is over."""
        if self.over:
            self.pending, self.phase = self.expected, self.phase ^ 1
            return True
        return False


def hang_message(offset: int, word: int) -> str:
    """Message about threads that wait for this mbarrier while nothing else can continue."""
    state = MbarrierState.of(word)
    awaits = "nothing, as it is not initialized"
    if state is not None:
        awaits = f"{state.pending} of {state.expected} arrivals and {state.bytes} bytes"
    return (
        f"deadlock: threads wait at the mbarrier at shared offset {offset}, which still awaits "
        f"{awaits}, and no other thread of the block can continue"
    )
