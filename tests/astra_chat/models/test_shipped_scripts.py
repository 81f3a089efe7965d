"""The shipped scripts, played with a judge that finds what they expect: no reply goes back."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from astra_chat.agents.turns import Plan
from astra_chat.models.script import load_script
from astra_chat.session.session import run_request
from astra_chat.tools.evaluation import Evaluation
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.tiers import baseline_source
from astra_chat.tools.types import Basis, Case, Crashed, Outcome, Timed
from astra_chat.transcript.events import Contradiction, RejectedReply
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from tests.astra_chat.run_samples import chat_request
from tests.chat_samples import CASE, FixedJudge, on_case, timed


class AsScripted(FixedJudge):
    """Each accepted kernel is faster than the one before it. No confirmation holds, so nothing is
    exported, which would take a compiler seconds."""

    def __init__(self, expected: dict[str, str], case: Case) -> None:
        self._case = case
        accepted = [source for source, word in expected.items() if word == "accepted"]
        outcomes: dict[str, Outcome] = {
            source: Crashed(case=CASE, message=word) for source, word in expected.items()
        }
        outcomes |= {s: timed(1.1 + 0.1 * i) for i, s in enumerate(accepted)}
        outcomes |= {s: timed(1.0, word) for s, word in expected.items() if word in SLOW}
        super().__init__(outcomes)

    def evaluate(
        self, source: str, extra_cases: Sequence[Case] = (), *, fresh_seeds: bool = False
    ) -> Evaluation:
        found = super().evaluate(source, extra_cases, fresh_seeds=fresh_seeds)
        outcome = timed(1.0, "tie") if fresh_seeds else found.outcome
        if isinstance(outcome, Timed):
            outcome = on_case(outcome, self._case)
        return found.model_copy(update={"outcome": outcome})


SLOW = ("tie", "slower")


@pytest.mark.parametrize("basis", ["measured", "estimated"])
@pytest.mark.parametrize("name", ["silu_and_mul", "fused_add_rmsnorm", "merge_state_v2"])
def test_nothing_of_a_shipped_script_is_doubted(name: str, basis: Basis, tmp_path: Path) -> None:
    task = find_task(name)
    script = load_script(task)
    expected = {script.sources[k.name]: k.expects.on(basis) for k in script.kernels()}
    judge = AsScripted({baseline_source(task, "sglang"): "tie", **expected}, task.demo[0][0])
    request = chat_request(task, tmp_path / "out")
    result = run_request(request, judge=judge)
    records = read(result.transcript).records
    assert not [r.event for r in records if isinstance(r.event, Contradiction | RejectedReply)]
    plans = [turn for turn in turns_of(records) if isinstance(turn.payload, Plan)]
    assert len(plans) >= 4
