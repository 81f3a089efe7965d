"""Models and judge behind the meter of a run: nothing is asked or evaluated beyond the budget."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

from autogen_core.models import ChatCompletionClient, CreateResult, LLMMessage

from astra_chat.agents.judge_protocol import JudgeProtocol
from astra_chat.models.answer import Answer
from astra_chat.models.layer import Layer
from astra_chat.models.spec import Role
from astra_chat.spending.meter import CHARACTERS_PER_TOKEN, Meter
from astra_chat.spending.prices import Price
from astra_chat.tools.descriptions import verdict
from astra_chat.tools.evaluation import BuildReport, Evaluation, Step
from astra_chat.tools.mutation.scores import CaseScores
from astra_chat.tools.tuning.tuned import Tuning
from astra_chat.tools.types import Case
from astra_chat.transcript.spending import Tokens

logger = logging.getLogger(__name__)


class MeteredClient(Layer):
    """Asks only within the budget, and counts every answer, usable or not."""

    def __init__(
        self, inner: ChatCompletionClient, role: Role, model: str, price: Price | None, meter: Meter
    ) -> None:
        super().__init__(inner)
        self._role, self._model, self._price, self._meter = role, model, price, meter

    async def create(self, messages: Sequence[LLMMessage], **rest: Any) -> CreateResult:
        """Raises BudgetSpent."""
        characters = sum(len(str(m.content)) for m in messages)
        self._meter.before_asking(characters, self._price)
        logger.debug("%s asks %s: %d characters", self._role, self._model, characters)
        began = time.monotonic()
        result = await super().create(messages, **rest)
        if result.cached:  # an earlier session counted it
            return result
        tokens = tokens_of(result, characters, self._price)
        by = (result.answered_by, result.refused) if isinstance(result, Answer) else ("", 0)
        self._meter.asked(self._role, self._model, tokens, *by)
        logger.info(
            "%s asked %s: %d tokens in, %d out, %.1f s",
            self._role,
            self._model,
            tokens.prompt,
            tokens.completion,
            time.monotonic() - began,
        )
        return result


def tokens_of(result: CreateResult, characters: int, price: Price | None) -> Tokens:
    """What one answer to a prompt of so many characters took and cost.

    Where a server counts nothing it is estimated: a budget has to hold there, too.
    """
    prompt, completion = result.usage.prompt_tokens, result.usage.completion_tokens
    cached = result.cached_tokens if isinstance(result, Answer) else 0
    estimated = 0
    if result.content and not prompt and not completion:
        prompt = -(-characters // CHARACTERS_PER_TOKEN)
        completion = -(-len(str(result.content)) // CHARACTERS_PER_TOKEN)
        estimated = prompt + completion
    return Tokens(
        estimated=estimated,
        prompt=prompt,
        cached=cached,
        completion=completion,
        reasoning=result.reasoning_tokens if isinstance(result, Answer) else 0,
        usd=price.usd(prompt, cached, completion) if price else None,
    )


def _log_steps(what: str, candidate: str, came: str, steps: Sequence[Step]) -> None:
    seconds = ", ".join(f"{step.name} {step.seconds:.1f} s" for step in steps)
    logger.info("%s of %s: %s; %s", what, candidate, came, seconds)


class MeteredJudge:
    """Runs kernels only within the budget."""

    def __init__(self, judge: JudgeProtocol, meter: Meter) -> None:
        self._judge, self._meter = judge, meter

    def build(self, source: str, also: Sequence[str] = ()) -> BuildReport:
        self._meter.before_building()
        report = self._judge.build(source, also)
        _log_steps("build", report.candidate, verdict(report.result), report.steps)
        return report

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        """Raises BudgetSpent."""
        self._meter.before_evaluating()
        evaluation = self._judge.evaluate(source, extra_cases, fresh_seeds=fresh_seeds)
        self._meter.evaluated(evaluation)
        what = "confirmation" if fresh_seeds else "evaluation"
        _log_steps(what, evaluation.candidate, verdict(evaluation.outcome), evaluation.steps)
        return evaluation

    def score(self, cases: Sequence[Case], mutants: int, also: str = "") -> CaseScores:
        """Raises BudgetSpent."""
        self._meter.before_building()
        return self._judge.score(cases, mutants, also)

    def tune(self, source: str, points: int, measured: int) -> Tuning:
        """With as many measurements as leave one evaluation for what is found. Raises BudgetSpent
        where no kernel may be run."""
        tuning = self._judge.tune(source, points, self._meter.before_tuning(measured))
        self._meter.tuned(tuning)
        logger.info("tuning of %s: %s; %.1f s", tuning.candidate, tuning.words, tuning.seconds)
        return tuning

    def cancel(self) -> None:
        self._judge.cancel()
