"""Turns of models as examples to learn from: what was asked, what was answered, what came of it.

Prompts are rebuilt by this version of Astra from the recorded chat, as `replay --prompts` shows
them; where a version in between changed their words, they are not the letters that the model read.
A kernel that was given as edits stands as the whole file.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from typing import Any, Final, Literal

from astra_chat.agents.turns import Kernel, Plan, Turn
from astra_chat.analysis.recorded_run import RecordedRun
from astra_chat.analysis.rows import EvaluationRow, RunColumns
from astra_chat.export.filters import Filter
from astra_chat.replay.prompts import Prompt, prompts
from astra_chat.tools.types import Basis, Value

RULE: Final = "log2-over-parent/1"
FAILED: Final = -1.0


class Message(Value):
    """One message of a chat, as chat templates take it."""

    role: Literal["system", "user", "assistant"]
    content: str


class ModelTurn(RunColumns):
    """A turn of a model, and what came of its candidate."""

    turn: int
    round: int
    role: str
    candidate: str
    """Whom the turn led to: a plan to the best kernel of its round. Empty: to nobody."""
    basis: Basis | None
    verdict: str
    """Verdict on the candidate; empty where there is none."""
    ratio: float | None
    """Speed of the candidate over the baseline; None: not timed."""
    confirmed: bool
    license: str
    """Licence of the texts, as the exporter stated it (SPDX); empty: not stated."""


class ChatExample(ModelTurn):
    """For fine-tuning (sft)."""

    messages: tuple[Message, ...]


class RewardStep(ModelTurn):
    """For reinforcement learning (rl): one state, one action, one reward."""

    state: str
    """Standing instructions and prompt."""
    action: str
    """The reply, as JSON."""
    reward: float
    """log2 of the candidate's speed over its parent's if it was timed; -1 if it failed."""
    reward_rule: str
    """Name of that rule, with its version."""
    last: bool
    """The run's last such step."""


def chat_examples(run: RecordedRun, wanted: Filter, license: str = "") -> Iterator[ChatExample]:
    """Yields an example for every model's turn that the filter takes; turns that lead to no
    candidate only without a filter."""
    for prompt, said, row in _turns(run):
        if wanted.takes(row) if row else wanted == Filter():
            yield ChatExample(
                **_turn(run, prompt, row, license),
                messages=(
                    Message(role="system", content=prompt.system),
                    Message(role="user", content=prompt.user),
                    Message(role="assistant", content=reply(said)),
                ),
            )


def reward_steps(run: RecordedRun, wanted: Filter, license: str = "") -> list[RewardStep]:
    """Returns a step for every plan and kernel that was judged and that the filter takes, in
    order."""
    steps = [
        RewardStep(
            **_turn(run, prompt, row, license),
            state=f"{prompt.system}\n\n{prompt.user}",
            action=reply(said),
            reward=reward(row),
            reward_rule=RULE,
            last=False,
        )
        for prompt, said, row in _turns(run)
        if row is not None and wanted.takes(row)
    ]
    if steps:
        steps[-1] = steps[-1].model_copy(update={"last": True})
    return steps


def reward(row: EvaluationRow) -> float:
    """Returns the reward by the rule RULE. A tie and a slower kernel are timed too: about 0, and
    below."""
    if row.ratio is None:
        return FAILED
    return math.log2(row.ratio / (row.parent_ratio or 1.0))


def reply(said: Turn) -> str:
    """What the model answered, in the form that it is asked for."""
    payload: dict[str, Any] = json.loads(said.payload.model_dump_json())
    if isinstance(said.payload, Kernel):
        payload = {"kind": "kernel", "words": payload["words"], "source": payload["source"]}
    return json.dumps({"reply": payload}, ensure_ascii=False)


def _turns(run: RecordedRun) -> Iterator[tuple[Prompt, Turn, EvaluationRow | None]]:
    """Each turn of a model with its prompt, and the evaluation that it led to."""
    kernels: dict[str, list[EvaluationRow]] = {}
    rounds: dict[int, list[EvaluationRow]] = {}
    for row in run.evaluations:
        if not row.confirms:
            kernels.setdefault(row.candidate, []).append(row)
            rounds.setdefault(row.round, []).append(row)
    for prompt in prompts(run.transcript):
        if prompt.role == "selector":
            continue
        said, led_to = run.chat[prompt.turn - 1], None
        if isinstance(said.payload, Kernel):  # its first evaluation after this turn
            own = kernels.get(said.payload.candidate, [])
            led_to = next((row for row in own if row.turn > prompt.turn), None)
        if isinstance(said.payload, Plan):  # the best of its round
            own = rounds.get(run.turns[prompt.turn - 1].round, [])
            led_to = max(own, key=lambda row: row.ratio or 0.0, default=None)
        yield prompt, said, led_to


def _turn(
    run: RecordedRun, prompt: Prompt, row: EvaluationRow | None, license: str
) -> dict[str, Any]:
    return {
        **run.columns,
        "turn": prompt.turn,
        "role": prompt.role,
        "round": run.turns[prompt.turn - 1].round,
        "license": license,
        "candidate": row.candidate if row else "",
        "basis": row.basis if row else None,
        "verdict": row.verdict if row else "",
        "ratio": row.ratio if row else None,
        "confirmed": row.confirmed if row else False,
    }
