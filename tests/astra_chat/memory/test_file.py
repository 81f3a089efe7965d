"""The memory's file: read, edited, shared; and what of it a run records and shows."""

from __future__ import annotations

import fcntl
import threading
from collections.abc import Iterable
from functools import partial
from pathlib import Path

import pytest

from astra_chat.agents.memory_cards import MOST_FAILED, MOST_SHOWN, MemoryCard, matching
from astra_chat.agents.prompt import ChatContext, turn_prompt
from astra_chat.agents.run_state import RunState, state_of
from astra_chat.agents.turns import Plan, RunRequest
from astra_chat.cli import memory as memory_command
from astra_chat.memory import cards as memory_cards
from astra_chat.memory import file as memory_file
from astra_chat.memory.file import for_run, merged, read_memory, write_memory
from astra_chat.models.open_models import open_models
from astra_chat.session.request import Request, SessionOptions
from astra_chat.session.resume import request_on, resumed
from astra_chat.session.session import run_request
from astra_chat.tools.task.folder import Task
from astra_chat.tools.types import NOT_PROFILED
from astra_chat.transcript.reader import read
from astra_chat.transcript.turns import turns_of
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.commands import Command
from tests.chat_samples import DEVICE, FixedJudge, run_options

ROOT = Path(__file__).parents[3]
MEASURED = ROOT / "transcripts" / "examples" / "silu_and_mul-h200.jsonl.xz"
CARD = MemoryCard(
    technique="Vectors of 'four'\nand \"more\"",
    change="One request \\ for four: ü, \x7f.",
    outcome="kept",
    task="other_task",
    task_class="elementwise",
    bottleneck="latency",
    predicted=1.5,
    found=1.4,
    low=1.3,
    high=1.5,
    confirmed=2.0,
    confirmed_low=1.9,
    confirmed_high=2.1,
    basis="estimated",
    gpu="virtual GPU",
    runs=("run-a",),
)
FAILED = CARD.model_copy(
    update={"technique": "A cluster", "outcome": "failed", "why": "wrong on 3 of 9", "found": None}
)


def named(technique: str, **changes: object) -> MemoryCard:
    return CARD.model_copy(update={"technique": technique, **changes})


def test_what_is_written_is_read_again(tmp_path: Path) -> None:
    file = tmp_path / "memory.toml"
    write_memory(file, [CARD, FAILED])
    assert read_memory(file) == (CARD, FAILED)


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("schema = 2", "schema: "),
        ("", "schema: field required"),
        ("schema = 1\n[[card]]\ntechnique = 'x'", "card 1 outcome: field required"),
        ("schema = 1\nkard = 3", "kard: extra inputs"),
        ("schema = ", "Invalid value"),
    ],
)
def test_a_file_that_is_none_is_one_line(tmp_path: Path, text: str, words: str) -> None:
    file = tmp_path / "memory.toml"
    file.write_text(text)
    with pytest.raises(BadInput) as caught:
        read_memory(file)
    assert str(caught.value).startswith(f"{file}: ") and words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_the_same_plan_of_another_run_is_reproduced() -> None:
    again = named(" vectors  OF 'four' and \"more\"", runs=("run-b",))
    found = merged([CARD], [CARD, again, named("other")])
    assert [card.runs for card in found] == [("run-a", "run-b"), ("run-a",)]
    assert "reproduced 1 time]" in found[0].text
    assert len(merged([CARD], [CARD.model_copy(update={"gpu": "NVIDIA H100"})])) == 2


def test_a_bottleneck_that_no_counter_showed_is_none() -> None:
    assert f", bottleneck {CARD.bottleneck}, " in CARD.text
    unknown = CARD.model_copy(update={"bottleneck": NOT_PROFILED})
    assert ", not profiled, " in unknown.text and "bottleneck" not in unknown.text


def test_signature_first_and_never_a_filter() -> None:
    others = [named(f"other {n}", bottleneck="dram") for n in range(9)]
    cards = (*others, CARD, FAILED, FAILED, FAILED)
    shown = matching(cards, "latency", "estimated")
    assert shown[0] is CARD and len(shown) == MOST_SHOWN
    assert sum(card.outcome == "failed" for card in shown) == MOST_FAILED
    assert {card.technique for card in shown[1:4]} <= {card.technique for card in others}


def run(task: Task, out: Path, *cards: MemoryCard) -> Path:
    models = open_models("scripted", task)
    request = Request(task, DEVICE, models, run_options(rounds=2), folder=out, memory=cards)
    return run_request(request, judge=FixedJudge()).transcript


def prompts_of_planners(task: Task, path: Path) -> list[str]:
    """What each planner of a recorded run was shown, from its transcript alone."""
    context = ChatContext(task=task, baseline=task.baseline, tier="sglang", device="virtual GPU")
    turns = turns_of(read(path).records)
    at = [n for n, turn in enumerate(turns) if isinstance(turn.payload, Plan)]
    states: list[RunState] = [state_of(turns[:n]) for n in at]
    return [turn_prompt("planner", context, state) for state in states]


def test_a_planner_sees_cards_after_its_own_first_ideas(task: Task, tmp_path: Path) -> None:
    """The transcript holds them, too: the file may change, be lost, or be switched off."""
    with_cards = prompts_of_planners(task, run(task, tmp_path / "with", CARD, FAILED))
    assert len(with_cards) == 2 and "What other runs found" not in with_cards[0]
    section = with_cards[1].split("## What other runs found\n")[1].split("\n## ")[0]
    assert "not a set of rules" in section and "Vectors of 'four' and" in section
    assert "estimated 1.40x (1.30 to 1.50), predicted 1.50x" in section
    assert "failed: wrong on 3 of 9" in section
    without = run(task, tmp_path / "without")
    assert all("other runs" not in text for text in prompts_of_planners(task, without))
    first = turns_of(read(without).records)[0].payload
    assert isinstance(first, RunRequest) and "memory" not in first.model_dump_json()


def test_a_resumed_run_reads_no_file(task: Task, tmp_path: Path) -> None:
    past = resumed(run(task, tmp_path / "out", CARD))
    with pytest.raises(BadInput, match="keeps the cards that its first turn contains"):
        request_on(past, task, session=SessionOptions(memory="cards.toml"))


def test_which_cards_a_run_gets(task: Task, tmp_path: Path) -> None:
    file = tmp_path / "memory.toml"
    far = named("far", task_class="matrix_product")
    write_memory(file, [far, CARD])
    assert for_run(file, task, "estimated") == (CARD, far)
    assert for_run("off", task, "estimated") == () == for_run(None, task, "estimated")
    with pytest.raises(BadInput, match="cannot read"):
        for_run(tmp_path / "none.toml", task, "estimated")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: Command) -> None:
    file, astra = tmp_path / "memory.toml", partial(command, "memory")
    code, out, _ = astra("add", MEASURED, MEASURED, "--memory", file)
    assert code == 0 and "3 new cards of 3 plans" in out and "0 new cards of 3" in out
    code, out, err = astra("add", ROOT / "pyproject.toml", "--memory", file)
    assert code == 1 and f"{file}: 3 cards" in out and len(err.splitlines()) == 1
    assert len(astra("list", "--memory", file).out.splitlines()) == 3
    assert "bottleneck     latency" in astra("show", 1, "--memory", file).out
    assert astra("show", 4, "--memory", file).code == 2
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    assert "give the file" in astra("list").err
    (tmp_path / "astra").mkdir()
    (tmp_path / "astra" / "astra.toml").write_text('memory = "../memory.toml"\n')
    assert len(astra("list").out.splitlines()) == 3


def test_cards_that_two_processes_add_at_a_time_are_all_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second begins when the first has read the file, and is done or waits before it writes."""
    path, second_waits = tmp_path / "memory.toml", threading.Event()
    merge, flock = memory_file.merged, fcntl.flock

    def add_second() -> None:
        memory_command.add([tmp_path / "second"], path)
        second_waits.set()

    second = threading.Thread(target=add_second)

    def merged_later(old: Iterable[MemoryCard], new: Iterable[MemoryCard]) -> list[MemoryCard]:
        if threading.current_thread() is not second:
            second.start()
            assert second_waits.wait(60)
        return merge(old, new)

    def noticed_flock(descriptor: int, kind: int) -> None:
        if threading.current_thread() is second:
            second_waits.set()
        flock(descriptor, kind)

    monkeypatch.setattr(memory_cards, "cards_of", lambda run: [named(run.name)])
    monkeypatch.setattr(memory_file, "merged", merged_later)
    monkeypatch.setattr(fcntl, "flock", noticed_flock)
    memory_command.add([tmp_path / "first"], path)
    second.join()
    assert [card.technique for card in read_memory(path)] == ["first", "second"]
