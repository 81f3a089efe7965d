"""The state of a run: one frozen value, folded turn by turn from the chat.

No other code keeps state about a chat, so a transcript that is read back gives the same state.
`next_step` (turn_order.py) decides from it alone.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property

from astra_chat.agents.evaluations import accepting, faster
from astra_chat.agents.limits import Limits
from astra_chat.agents.rounds import Attempt, Round, tried
from astra_chat.agents.strategy import Strategy, Tried, choose_parent, named
from astra_chat.agents.turns import (
    Analysis,
    Approval,
    Kernel,
    Pass,
    Plan,
    Position,
    RunRequest,
    Speaker,
    TestSuite,
    Turn,
)
from astra_chat.tools.evaluation import BuildReport, Evaluation
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.timing.best import best_of
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Case, Correct, Crashed, Timed, Unsafe, Wrong

MOST_FAILED = 16
"""Drawn cases on which candidates failed that later checks have: the last ones."""


@dataclass(frozen=True, eq=False)
class RunState:
    """The state of a run after a turn. `after` returns the state after the next one."""

    limits: Limits = field(default_factory=Limits)
    request: RunRequest | None = None
    last: Turn | None = None
    """The last turn of all."""
    latest: Turn | None = None
    """The last turn that asks for work: no decision, no pass, no confirmation of the winner."""
    decision: Approval | None = None
    """The human's decision about `latest`."""
    passes: tuple[Speaker, ...] = ()
    """Speakers that passed since `latest`."""
    baseline: Evaluation | None = None
    """The baseline judged against itself: the first evaluation of every chat."""
    rounds: tuple[Round, ...] = ()
    extra_cases: tuple[Case, ...] = ()
    """The tester's cases without duplicates and without those that kill no seeded bug."""
    failed_cases: tuple[Case, ...] = ()  # drawn, and candidates failed on them
    scores: CaseScores | None = None  # of the tester's last cases
    analysis: Analysis | None = None
    analysed: Evaluation | None = None
    """What the last analysis is about."""
    evaluated: Evaluation | None = None
    """The last evaluation of the search, the baseline's included."""
    undecided: Evaluation | None = None
    """The last evaluation, if a human may still reject it."""
    accepted: Mapping[str, Evaluation] = field(default_factory=dict)
    """Evaluations of accepted candidates, by candidate: the fastest of the search that is faster
    than the baseline and that no human rejected, in the order of the search."""
    confirmed: Mapping[str, Evaluation] = field(default_factory=dict)
    """Last evaluation of each candidate on fresh seeds, by candidate. It alone counts where there
    is one."""
    before_confirmation: Evaluation | None = None
    """The search's evaluation of the candidate that the last turn confirmed, if the turn before
    evaluated the same one. Elsewhere the confirmation replaces it, since it is more accurate."""
    confirmations: int = 0
    """Confirmations in a row, up to the last turn; repairs of winners may lie between them."""
    repairing: str = ""
    """The winner that the last confirmation refused, while its repair is asked for or made."""
    repaired: Mapping[str, str] = field(default_factory=dict)
    """Repairs of winners that were refused, by winner; "" where the fixer passed."""
    sources: Mapping[str, str] = field(default_factory=dict)
    """Sources of all candidates that were proposed, by candidate."""
    shown: str = ""
    """The candidate of the last build or evaluation."""
    approve_all: bool = False
    evaluations: int = 0
    """Evaluations so far, those of the baseline and confirmations included."""
    tuned: int = 0
    """Points that tuning measured."""
    tester_turns: int = 0
    human_turns: int = 0
    unsure: int = 0
    """Analyses that left the next speaker to the selector's model."""

    def after(self, turn: Turn) -> RunState:
        """The state after one more turn."""
        if isinstance(turn.payload, Evaluation) and turn.payload.confirms:
            return self._confirmed(turn, turn.payload)
        state = replace(
            self._decided(turn)._folded(turn, self),
            last=turn,
            before_confirmation=None,
            tester_turns=self.tester_turns + (turn.speaker == "tester"),
            human_turns=self.human_turns + (turn.speaker == "human"),
        )
        if self._repairs_winner(turn):
            return replace(state, decision=self.decision, passes=self.passes)
        state = replace(state, confirmations=0, repairing="")
        if isinstance(turn.payload, Approval | Pass):
            return state
        return replace(state, latest=turn, decision=None, passes=())

    def _repairs_winner(self, turn: Turn) -> bool:
        """Whether the turn belongs to the repair of a winner, which is no part of a round's work:
        where it ends, the chat is at the place where the winner was to be confirmed."""
        fixes = turn.speaker in ("fixer", "single")
        match turn.payload:
            case _ if not self.repairing:
                return False
            case Kernel():
                return fixes or turn.speaker == "human"
            case Pass():
                return fixes and self.repairing not in self.repaired
            case BuildReport() | Evaluation() | Approval():
                return self.repairing in self.repaired
            case _:
                return False

    def _decided(self, turn: Turn) -> RunState:
        """Accept or drop the evaluation that a human could have rejected before this turn."""
        if self.undecided is None:
            return self
        approved = isinstance(turn.payload, Approval) and turn.payload.decision != "reject"
        if turn.speaker == "human" and not approved:
            return replace(self, undecided=None)
        return replace(self, undecided=None, accepted=accepting(self.accepted, self.undecided))

    def _folded(self, turn: Turn, before: RunState) -> RunState:
        """What the turn's payload changes; `before`: the state that the turn was made in."""
        match turn.payload:
            case RunRequest() as request:
                return replace(self, request=request)
            case TestSuite() | CaseScores() as tests:
                return self._with_tests(tests)
            case Plan() as plan:
                index, parent = named(before.tried, plan.parent) or before.next_parent
                new = Round(len(self.rounds) + 1, plan, parent, index)
                return replace(self, rounds=(*self.rounds, new))
            case Kernel() as kernel:
                return self._with_kernel(turn.speaker, kernel)
            case BuildReport() | Tuning() | Evaluation() as found:
                return self._with_found(found)
            case Analysis() as analysis:
                unsure = self.unsure + (analysis.next == "unsure")
                return replace(self, analysis=analysis, analysed=self.evaluated, unsure=unsure)
            case Approval() as decision:
                return self._with_decision(decision)
            case Pass():
                state = replace(self, passes=(*self.passes, turn.speaker))
                return state._noted("") if before._repairs_winner(turn) else state

    def _with_tests(self, tests: TestSuite | CaseScores) -> RunState:
        if isinstance(tests, CaseScores):
            kept = tuple(case for case in self.extra_cases if case not in tests.dropped)
            return replace(self, extra_cases=kept, scores=tests)
        known = list(self.extra_cases)
        for case in proposed(tests):
            known += [] if case in known else [case]
        return replace(self, extra_cases=tuple(known))

    def _with_found(self, found: BuildReport | Tuning | Evaluation) -> RunState:
        match found:
            case BuildReport():
                built = self._in_round(lambda one: one.with_build(found))
                return replace(built, shown=found.candidate)
            case Tuning():
                tuned = self._in_round(lambda one: replace(one, tuning=found))
                return replace(tuned, tuned=self.tuned + found.measured)
            case Evaluation():
                return self._with_evaluation(found)

    def _with_kernel(self, speaker: Speaker, kernel: Kernel) -> RunState:
        def proposed_in(under_way: Round) -> Round:
            if speaker == "human":
                under_way = under_way.with_replaced(self.shown)
            return under_way.with_kernel(speaker, kernel, repairing)

        repairing = self.repairing if self._repairs_winner(Turn(speaker, kernel)) else ""
        state = self._noted(kernel.candidate) if repairing else self
        sources = {kernel.candidate: kernel.source, **self.sources}
        return replace(state._in_round(proposed_in), sources=sources)

    def _noted(self, repair: str) -> RunState:
        """The state with the repair of the winner that is under repair; "" for none."""
        return replace(self, repaired={**self.repaired, self.repairing: repair})

    def _with_evaluation(self, evaluation: Evaluation) -> RunState:
        state = replace(
            self,
            evaluated=evaluation,
            shown=evaluation.candidate,
            evaluations=self.evaluations + 1,
            failed_cases=with_failed(self.failed_cases, evaluation),
        )
        if self.baseline is None:
            return replace(state, baseline=evaluation)
        state = state._in_round(lambda one: one.with_evaluation(evaluation))
        if self._may_reject:
            return replace(state, undecided=evaluation)
        return replace(state, accepted=accepting(self.accepted, evaluation))

    def _with_decision(self, decision: Approval) -> RunState:
        every = self.approve_all or decision.decision == "approve_all"
        state = replace(self, decision=decision, approve_all=every)
        if decision.decision != "reject":
            return state
        return state._in_round(lambda one: one.with_rejection(decision.candidate, decision.reason))

    def _in_round(self, change: Callable[[Round], Round]) -> RunState:
        """Returns the state with the round under way changed, if there is one."""
        if not self.rounds:
            return self
        return replace(self, rounds=(*self.rounds[:-1], change(self.rounds[-1])))

    def _confirmed(self, turn: Turn, evaluation: Evaluation) -> RunState:
        """Returns the state after the evaluation of a winner on fresh seeds."""
        name, before = evaluation.candidate, self.last.payload if self.last else None
        refused = not isinstance(evaluation.outcome, Timed | Correct)
        state = replace(
            self,
            last=turn,
            shown=name,
            confirmations=self.confirmations + 1,
            confirmed={**self.confirmed, name: evaluation},
            repairing=name if refused and name not in self.repaired.values() else "",
            before_confirmation=None,
            evaluations=self.evaluations + 1,
            failed_cases=with_failed(self.failed_cases, evaluation),
            rounds=tuple(one.with_refused(evaluation) if refused else one for one in self.rounds),
        )
        if not isinstance(before, Evaluation) or before.confirms or before.candidate != name:
            return state
        state = state._replaced(before, evaluation.model_copy(update={"confirms": False}))
        if self.repairing:  # its repair is what was confirmed
            place = {"latest": self.latest, "decision": self.decision, "passes": self.passes}
            return replace(state, **place)  # type: ignore[arg-type]
        return replace(state, repairing="")

    def _replaced(self, old: Evaluation, new: Evaluation) -> RunState:
        """Returns the state with the search's evaluation of a winner replaced by a confirmation."""
        state = replace(
            self._in_round(lambda one: one.with_evaluation_replaced(old, new)),
            latest=Turn("executor", new),
            decision=None,
            passes=(),
            evaluated=new,
            before_confirmation=old,
        )
        if self.undecided is not None:
            return replace(state, undecided=new)
        kept = {name: one for name, one in self.accepted.items() if one is not old}
        return replace(state, accepted=accepting(kept, new))

    @property
    def cases(self) -> tuple[Case, ...]:
        """What a candidate is checked on beside the task's own cases and those drawn for it."""
        return (*self.extra_cases, *self.failed_cases)

    @property
    def strategy(self) -> Strategy:
        return self.request.strategy if self.request else Strategy()

    @property
    def asks_human(self) -> bool:
        """Whether a human decides from here on."""
        return self._may_reject and self.limits.approval

    @property
    def _may_reject(self) -> bool:
        """Whether a human could have decided about the last turn, for all that it says."""
        return self.request is not None and self.request.approval and not self.approve_all

    @property
    def round(self) -> Round | None:
        """The round that is under way."""
        return self.rounds[-1] if self.rounds else None

    @property
    def served(self) -> Round | None:
        """The round whose plan the next kernel serves: a repaired winner's, else the last."""
        winners = [one for one in self.rounds if self.repairing and one.has(self.repairing)]
        return winners[-1] if winners else self.round

    @property
    def to_fix(self) -> Attempt | None:
        """The kernel that the fixer is asked to fix: the winner under repair, a kernel of the round
        that its confirmation refused and nobody fixed yet, or the last one."""
        under_way = self.served
        if under_way is None or not under_way.attempts:
            return None
        lost = [one for one in under_way.attempts if one.kernel.candidate == self.repairing]
        return next(iter([*lost[-1:], *under_way.lost, under_way.attempts[-1]]))

    @property
    def lost_winners(self) -> tuple[Attempt, ...]:
        """The kernels that their confirmation refused, each once."""
        every = (attempt for one in self.rounds for attempt in one.attempts)
        return tuple({one.kernel.candidate: one for one in every if one.refused}.values())

    @cached_property
    def counted(self) -> Mapping[str, tuple[Evaluation, Timed]]:
        """Accepted evaluations by candidate; a confirmation replaces the search's evaluation."""
        accepted = self.accepted
        if self.undecided is not None and not self.asks_human:
            accepted = accepting(accepted, self.undecided)
        counting = [self.confirmed.get(name, one) for name, one in accepted.items()]
        return {one.candidate: (one, timed) for one in counting if (timed := faster(one))}

    @cached_property
    def best(self) -> tuple[Evaluation, Timed] | None:
        """The accepted candidate with the highest ratio over the baseline, the first of equals;
        where memory counts, of those that are about as fast the one that needs least.

        What the human rejected, or has not decided on, is not accepted.
        """
        return _best(list(self.counted.values()))

    @property
    def best_of_search(self) -> tuple[Evaluation, Timed] | None:
        """The best by the evaluations of the search, without confirmations."""
        timed = ((one, outcome) for one in self.accepted.values() if (outcome := faster(one)))
        return _best(list(timed))

    @cached_property
    def tried(self) -> list[Tried]:
        """All candidates, the baseline first; none before it was judged."""
        if self.baseline is None:
            return []
        accepted = {name: evaluation for name, (evaluation, _) in self.counted.items()}
        return tried(self.baseline, self.rounds, accepted)

    @cached_property
    def next_parent(self) -> tuple[int, Evaluation | None]:
        """What the next plan changes by the strategy, and its index among what was tried."""
        if not self.tried:
            return 0, None
        index = choose_parent(self.strategy, self.tried, len(self.rounds))
        assert self.tried[index].evaluation is not None, (
            "the strategy chose a candidate that has not been judged"
        )
        return index, self.tried[index].evaluation

    @property
    def parent(self) -> Evaluation | None:
        """What the current plan changes while its kernels are written; then what the next will."""
        if self.round and self.last and isinstance(self.last.payload, Plan | Kernel):
            return self.round.parent
        return self.next_parent[1]

    def parent_of(self, speaker: Speaker) -> str:
        """The candidate that this speaker's next kernel is derived from; "" before the baseline.

        A human edits the candidate shown last, a fixer the kernel before its own, the executor
        what it tuned, all others what their plan changes.
        """
        if speaker == "human":
            return self.shown
        if speaker == "executor" and self.round and self.round.tuning:
            return self.round.tuning.candidate
        if speaker != "coder" and (fixed := self.to_fix):
            return fixed.kernel.candidate
        parent = self.round.parent if self.round else self.baseline
        return parent.candidate if parent else ""

    def position(self, role: str) -> Position:
        """The position of `role`'s turn if it were next."""
        begun, under_way = len(self.rounds), self.round
        attempts = {
            "tester": self.tester_turns + 1,
            "fixer": (under_way.repairs if under_way else 0) + 1,
            "selector": self.unsure,
            "coder": (under_way.kernels_of("coder") if under_way else 0) + 1,
        }
        return Position(round=begun + (role == "planner"), attempt=attempts.get(role, 1))

    @property
    def may_evaluate(self) -> bool:
        """Whether the budget holds one more candidate and, after it, a winner's confirmation."""
        spent, most = self.evaluations + self.tuned, self.limits.evaluations
        kept = 1 if self.limits.confirmations and spent > 1 else 0
        return most is None or spent + 1 + kept <= most


def _best(timed: Sequence[tuple[Evaluation, Timed]]) -> tuple[Evaluation, Timed] | None:
    place = best_of([outcome for _, outcome in timed])
    return None if place is None else timed[place]


def states(turns: Iterable[Turn], limits: Limits | None = None) -> Iterator[RunState]:
    """The state before the first turn, then after each."""
    state = RunState(limits or Limits())
    yield state
    for turn in turns:
        state = state.after(turn)
        yield state


def state_of(turns: Iterable[Turn], limits: Limits | None = None) -> RunState:
    """The state after all of these turns."""
    *_, state = states(turns, limits)
    return state


def proposed(suite: TestSuite) -> tuple[Case, ...]:
    return tuple(test.case() for test in suite.cases)


def with_failed(known: tuple[Case, ...], evaluation: Evaluation) -> tuple[Case, ...]:
    """`known`, and the case on which this candidate failed where it was drawn: later checks of the
    run have it, too.

    Many hidden cases are drawn again for each check, and all of them where a run is resumed in
    another process. The best candidate may have the fault that such a case showed in another one,
    and its own draw may have missed it: its confirmation has the case.
    """
    case = evaluation.check.failed if evaluation.check else None
    if case is None or case in known:
        return known
    fails = isinstance(evaluation.outcome, Wrong | Unsafe | Crashed)
    return (*known, case)[-MOST_FAILED:] if fails else known
