"""Every candidate is shown against what it was made of, the best one against the baseline too."""

from __future__ import annotations

from pathlib import Path

from astra_chat.agents.turns import Approval, Kernel, Turn
from astra_chat.report.sources import BASELINE, Change, changes
from astra_chat.tools.types import candidate_id
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import texts, turns_of
from tests.chat_samples import (
    BROKEN,
    SCALAR,
    VECTOR,
    analysis,
    asking_turns,
    baseline_turns,
    build,
    evaluation,
    plan,
    timed,
)

ROOT = Path(__file__).parents[3]
FASTER = VECTOR.replace("127) / 128), 128", "255) / 256), 256")


def kernel(speaker: str, source: str) -> Turn:
    return Turn(speaker, Kernel(words="", source=source))  # type: ignore[arg-type]


def judged(source: str, ratio: float) -> list[Turn]:
    return [
        Turn("executor", build(source)), Turn("executor", evaluation(source, timed(ratio))),
    ]  # fmt: skip


def told(found: list[Change]) -> list[tuple[str, str, int, str]]:
    return [(c.candidate, c.speaker, c.round, c.against) for c in found]


def test_parents() -> None:
    turns = [
        *baseline_turns(),
        Turn("planner", plan()), kernel("coder", BROKEN), Turn("executor", build(BROKEN)),
        kernel("fixer", VECTOR), *judged(VECTOR, 1.5), Turn("profiler", analysis()),
        Turn("planner", plan()), kernel("coder", FASTER), *judged(FASTER, 1.9),
    ]  # fmt: skip
    broken, vector, faster = (candidate_id(text) for text in (BROKEN, VECTOR, FASTER))
    found = changes(turns, SCALAR)
    assert told(found) == [
        (broken, "coder", 1, BASELINE),
        (vector, "fixer", 1, broken),
        (faster, "coder", 2, vector),
        (faster, "coder", 2, BASELINE),
    ]
    assert found[2].counts == "+1 -1 lines"
    kinds = [kind for kind, _ in found[2].lines]
    assert kinds[0] == "at" and kinds.count("add") == kinds.count("del") == 1
    assert ("add", "+" + next(s for s in FASTER.splitlines() if "255" in s)) in found[2].lines


def test_an_edit_of_the_human_is_shown_against_what_they_saw() -> None:
    turns = [
        *asking_turns(), Turn("planner", plan()), kernel("coder", VECTOR),
        Turn("executor", build(VECTOR)), kernel("human", FASTER),
    ]  # fmt: skip
    assert told(changes(turns, SCALAR))[-1] == (
        candidate_id(FASTER), "human", 1, candidate_id(VECTOR),
    )  # fmt: skip
    refused = Turn("human", Approval(candidate=candidate_id(VECTOR), decision="reject", reason=""))
    assert len(changes([*turns[:-1], refused], SCALAR)) == 1


def test_of_a_recorded_run() -> None:
    """Taking the shown lines back from every source gives its parent."""
    path = ROOT / "transcripts/examples/h200/fused_add_rmsnorm.jsonl"
    transcript = read(path)
    stored = texts(transcript.records)
    baseline = stored[transcript.header.task.files["baseline.cu"]]
    sources = {candidate_id(text): text for text in stored.values()} | {BASELINE: baseline}
    found = changes(turns_of(transcript.records), baseline)
    assert len({c.against for c in found}) > 2
    for change in found:
        old, new = sources[change.against].splitlines(), sources[change.candidate].splitlines()
        for kind, line in change.lines:
            assert line[1:] in {"add": new, "del": old}.get(kind, [line[1:]])
        kinds = [kind for kind, _ in change.lines]
        assert len(new) - len(old) == kinds.count("add") - kinds.count("del")
