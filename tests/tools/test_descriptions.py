"""Findings as text: every outcome says its figures, and estimates say that they are."""

from __future__ import annotations

import pytest

from astra_chat.tools import descriptions
from astra_chat.tools.types import (
    BuildFailed,
    Correct,
    Crashed,
    Finding,
    Metric,
    Outcome,
    Refused,
    Resources,
    TimedOut,
    Unsafe,
    Unsupported,
)
from tests.chat_samples import BROKEN, CASE, VECTOR, WRONG_OUTCOME, build, timed

OUTCOMES: list[tuple[Outcome, list[str]]] = [
    (
        Refused(gate="guard", findings=(Finding(line=3, what="system"),)),
        ["guard", "line 3: system"],
    ),
    (BuildFailed(log="line 5: error"), ["does not build", "line 5: error"]),
    (
        Unsupported(what="tensor maps", kernel="k", opcode="cp.async.bulk", line=9),
        ["tensor maps", "cp.async.bulk", "line 9", "k"],
    ),
    (WRONG_OUTCOME, ["=4 ", "=64 float32", "out[3, 63]", "never written", "1 of 256", "nan"]),
    (
        WRONG_OUTCOME.model_copy(
            update={"reason": "not_accepted", "got": 7.0, "note": "this expert stands there twice"}
        ),
        ["accept() in reference.py rejects it: out[3, 63] is 7; this expert stands there twice"],
    ),
    (
        WRONG_OUTCOME.model_copy(
            update={"reason": "distribution", "got": 5.0, "note": "1,000 draws"}
        ),
        ["drawn with probabilities", "out[3, 63] is 5; 1,000 draws"],
    ),
    (
        WRONG_OUTCOME.model_copy(update={"reason": "value", "expected": 0.003463, "got": 0.003952}),
        ["out[3, 63] is 14% too large: expected 0.003463, got 0.003952 (1 of 256"],
    ),
    (
        WRONG_OUTCOME.model_copy(update={"reason": "value", "expected": 8.0, "got": 0.25}),
        ["out[3, 63] is 32 times too small: expected 8, got 0.25"],
    ),
    (
        WRONG_OUTCOME.model_copy(
            update={"reason": "precision", "expected": 0.0122501, "got": 0.0122512}
        ),
        ["expected 0.0122501, got 0.0122512"],
    ),
    (
        WRONG_OUTCOME.model_copy(
            update={"reason": "nan_pattern", "expected": 0.5, "got": float("nan"), "note": ""}
        ),
        ["NaN where the oracle has a number: out[3, 63] expected 0.5, got nan"],
    ),
    (
        WRONG_OUTCOME.model_copy(
            update={"reason": "nan_pattern", "expected": float("-inf"), "got": 3.0, "note": ""}
        ),
        ["a number where the oracle has -infinity: "],
    ),
    (Unsafe(case=CASE, what="race", where="line 4"), ["race", "line 4"]),
    (Crashed(case=CASE, message="signal 11"), ["crashed", "signal 11"]),
    (TimedOut(step="check", limit_s=60), ["check", "60 s"]),
    (Correct(cases=3, worst=0.5), ["correct on 3 cases", "not timed"]),
    (
        Correct(cases=9, hidden=4, worst=0.5, deterministic=False),
        ["4 of them drawn", "non-deterministic"],
    ),
    (
        Correct(cases=201, hidden=190, worst=0.5, left_out=22),
        [
            "correct on 201 of 223 cases, 190 of them drawn",
            "; 22 left out: the baseline fails there; not timed",
        ],
    ),
    (
        Unsupported(what="the baseline cannot be judged", kernel="", opcode="", line=0),
        ["unsupported: the baseline cannot be judged"],
    ),
    (timed(1.5), ["estimated 1.50x", "accepted"]),
]


@pytest.mark.parametrize(("outcome", "said"), OUTCOMES, ids=[o.kind for o, _ in OUTCOMES])
def test_every_outcome_in_words(outcome: Outcome, said: list[str]) -> None:
    text = descriptions.describe(outcome)
    assert all(piece in text for piece in said), text


def test_verdicts() -> None:
    assert descriptions.verdict(timed(1.0, "tie")) == "tie"
    assert descriptions.verdict(WRONG_OUTCOME) == "wrong"
    assert descriptions.verdict(build(VECTOR).result) == "built"


def test_builds_in_words() -> None:
    assert "inn" in descriptions.describe_build(build(BROKEN))
    assert descriptions.describe_build(build(VECTOR)).startswith("builds")


def test_a_long_log_is_cut_and_says_so() -> None:
    log = "\n".join(f"line {i}" for i in range(40))
    text = descriptions.describe(BuildFailed(log=log))
    assert f"{40 - descriptions.LOG_LINES} more lines" in text
    assert len(text.splitlines()) == descriptions.LOG_LINES + 2


def test_prediction_is_over_the_parent() -> None:
    assert descriptions.prediction(1.5, timed(3.0), 2.0) == (
        "the plan predicted 1.50x over its parent, estimated 1.50x"
    )


@pytest.mark.parametrize(
    ("value", "text"),
    [(4096.0, "4,096"), (0.12345, "0.1235"), (float("nan"), "nan"), (float("-inf"), "-inf")],
)
def test_numbers(value: float, text: str) -> None:
    assert descriptions.number(value) == text


def test_metrics_and_resources() -> None:
    assert descriptions.metric_text(Metric(name="m", value=2, unit="B", words="")) == "m 2 B"
    used = Resources(kernel="k", registers=32, static_shared_bytes=64, spill_bytes=8, stack_bytes=0)
    told = "k 32 registers, 64 B shared, 8 B spilled"
    assert descriptions.describe_resources((used, used)) == told
    array = used.model_copy(update={"stack_bytes": 40, "spill_bytes": 0})
    held = "k 32 registers, 64 B shared, 40 B of local memory per thread"
    assert descriptions.describe_resources((array,)) == held
    half = used.model_copy(update={"kernel": "_Z4siluI6__halfEvPT_", "spill_bytes": 0})
    whole = half.model_copy(update={"kernel": "_Z4siluIfEvPT_", "registers": 30})
    assert descriptions.describe_resources((used, half, whole)) == (
        f"{told}; silu<__half> 32 registers, 64 B shared; silu<float> 30 registers, 64 B shared"
    )
    twice = half.model_copy(update={"kernel": "_Z4siluI13__nv_bfloat16EvPT_"})
    assert descriptions.describe_resources((half, twice)) == (
        "silu<__half> and <__nv_bfloat16> 32 registers, 64 B shared"
    )
    assert descriptions.describe_resources(()) == "no kernel"


def test_a_predicted_ratio_near_1_keeps_its_third_digit() -> None:
    shown = [descriptions.predicted_text(ratio) for ratio in (1.045, 0.9871, 1.02, 1.0, 1.2345)]
    assert shown == ["1.045x", "0.987x", "1.02x", "1.00x", "1.23x"]
