"""Counts what models and judge cost, and stops a run before it exceeds its budget."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from astra_chat.spending.budget import Budget, BudgetSpent
from astra_chat.spending.prices import Price
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.transcript.ledger import gpu_seconds
from astra_chat.transcript.spending import ModelCall, Spent, Tokens
from astra_vgpu.ground.errors import BadInput

CHARACTERS_PER_TOKEN = 4
"""Characters per token of a prompt not yet sent: a rough value, low for code."""


class Meter:
    """What was spent so far, in all sessions of the run, and the budget."""

    def __init__(
        self,
        budget: Budget,
        before: Spent | None = None,
        before_s: float = 0.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._budget, self._clock = budget, clock
        self._unrecorded: list[ModelCall] = []
        self._tokens = before.tokens if before else Tokens()
        self._evaluations = before.runs if before else 0
        self._gpu_s = before.gpu_s if before else 0.0
        self._start = clock() - before_s

    def left(self) -> str:
        """What is left of the budget, as prompts tell it."""
        return self._budget.left(self._tokens, self._evaluations)

    def require_prices(self, prices: Mapping[str, Price | None]) -> None:
        """Raise BadInput if the budget limits money and a model's price is unknown."""
        lacking = [role for role, price in prices.items() if price is None]
        if self._budget.usd is not None and lacking:
            raise BadInput(
                f"--budget usd: the price of the {lacking[0]}'s model is unknown: give usd_in=,"
                " usd_cached= and usd_out=, per million tokens, in --models"
            )
        if self._budget.usd is not None and self._tokens.usd is None:
            raise BadInput(
                "--budget usd: the price of answers in earlier sessions is unknown, so the"
                " remaining budget is unknown too: set tokens= instead"
            )

    def before_asking(self, characters: int, price: Price | None) -> None:
        """Raise BudgetSpent unless a prompt of so many characters may be sent."""
        self._before_anything()
        prompt = characters // CHARACTERS_PER_TOKEN
        limit = self._budget.tokens
        if limit is not None and self._tokens.total + prompt >= limit:
            raise BudgetSpent(
                f"the budget of {limit:,} tokens is used up: {self._tokens.total:,} spent, and"
                f" the next prompt has about {prompt:,}"
            )
        usd, spent = self._budget.usd, self._tokens.usd
        if usd is not None and spent is not None and price is not None:
            following = price.usd(prompt, 0, 0)
            if spent + following >= usd:
                raise BudgetSpent(
                    f"the budget of ${usd:g} is used up: ${spent:.4f} spent, and the next"
                    f" prompt costs about ${following:.4f}"
                )

    def asked(
        self, role: str, model: str, tokens: Tokens, answered_by: str = "", refused: int = 0
    ) -> None:
        """Count an answer."""
        self._tokens = self._tokens + tokens
        self._unrecorded.append(
            ModelCall(
                role=role, model=model, tokens=tokens, answered_by=answered_by, refused=refused
            )
        )

    def take(self, role: str | None = None, most: int | None = None) -> list[ModelCall]:
        """Answers that are not recorded yet, oldest first: a role's, or all.

        They are recorded with what came of them, since a team tells of its turns a little later
        than it takes them, and two runs of the same are to be the same line by line.
        """
        found = [one for one in self._unrecorded if role in (None, one.role)][:most]
        for one in found:
            self._unrecorded.remove(one)
        return found

    def before_building(self) -> None:
        """Raise BudgetSpent unless time is left."""
        self._before_anything()

    def before_evaluating(self) -> None:
        """Raise BudgetSpent unless one more kernel may be run."""
        self._before_anything()
        limit, gpu_s = self._budget.evaluations, self._budget.gpu_s
        if limit is not None and self._evaluations >= limit:
            raise BudgetSpent(f"the budget of {limit} evaluations is used up")
        if gpu_s is not None and self._gpu_s >= gpu_s:
            raise BudgetSpent(
                f"the budget of {gpu_s:g} GPU seconds is used up: {self._gpu_s:.1f} spent"
            )

    def before_tuning(self, most: int) -> int:
        """Points of `most` that may be measured. Raises BudgetSpent unless a kernel may be run."""
        self.before_evaluating()
        limit = self._budget.evaluations
        return most if limit is None else max(0, min(most, limit - self._evaluations - 2))

    def tuned(self, tuning: Tuning) -> None:
        self._evaluations += tuning.measured
        self._gpu_s += tuning.gpu_s

    def evaluated(self, evaluation: Evaluation) -> None:
        self._evaluations += 1
        self._gpu_s += gpu_seconds(evaluation)

    def _before_anything(self) -> None:
        limit, now = self._budget.wall_s, self._clock() - self._start
        if limit is not None and now >= limit:
            raise BudgetSpent(f"the budget of {limit:g} s is used up: {now:.0f} s have passed")
