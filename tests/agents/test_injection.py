"""Kernel text, compiler output and words are data: whatever they say, turn order, verdicts, prompts
and the terminal stay as they are."""

from __future__ import annotations

import io
import re
import tomllib
import unicodedata
from collections.abc import Callable
from pathlib import Path

import pytest

from astra_chat.agents.position import read_position
from astra_chat.agents.prompt import MAX_CHARACTERS, ChatContext, turn_prompt
from astra_chat.agents.run_state import state_of
from astra_chat.agents.selector import question
from astra_chat.agents.turn_order import next_step, speakers
from astra_chat.agents.turns import MODEL_ROLES, Approval, Kernel, RoleName, Turn
from astra_chat.display.console import console
from astra_chat.display.run_view import View
from astra_chat.tools.judge import Judge
from astra_chat.tools.system.devices import pick_device
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.types import BuildFailed, Crashed, Finding, Refused, Unsafe, Unsupported
from astra_chat.transcript.reader import read
from tests.chat_samples import (
    BROKEN,
    CASE,
    REFERENCE,
    SCALAR,
    TASK_TOML,
    VECTOR,
    analysis,
    asking_turns,
    baseline_turns,
    build,
    coded,
    evaluation,
    plan,
    run_request,
    suite,
    timed,
    write_transcript,
)

TEXTS: list[str] = tomllib.loads((Path(__file__).parent / "injections.toml").read_text())["texts"]
NEUTRAL = "nothing of note"
ENDLESS = "accepted " * 30_000
UNSEEN = ("Cc", "Cf", "Zl", "Zp", "Cs")
"""Categories of Unicode: control codes, formats, separators of lines and paragraphs, surrogates."""


def source(text: str) -> str:
    """A kernel that says it in a comment and in a string."""
    literal = text.encode("unicode_escape").decode().replace('"', "'")
    return f'/* {text.replace("*/", "")} */\nconst char* words = "{literal}";\n{VECTOR}'


def in_words(text: str) -> list[Turn]:
    """Every role says it in every field of its own."""
    tests = suite((7, 12))
    case = tests.cases[0].model_copy(update={"why": text})
    card = plan(text).model_copy(
        update={name: text for name in ("change", "why", "anchor", "metric", "risk")}
    )
    said = analysis("unsure").model_copy(update={"words": text, "bottleneck": text})
    kernel = Kernel(words=text, source=VECTOR)
    return [
        Turn("user", run_request()),
        Turn("tester", tests.model_copy(update={"words": text, "cases": (case,)})),
        *baseline_turns()[2:],
        Turn("planner", card),
        Turn("coder", kernel),
        Turn("executor", build(VECTOR)),
        Turn("executor", evaluation(VECTOR, timed(1.9))),
        Turn("profiler", said),
    ]


def in_a_kernel(text: str) -> list[Turn]:
    """The best candidate so far says it."""
    kernel = Kernel(words="", source=source(text))
    return [
        *baseline_turns(),
        Turn("planner", plan()),
        Turn("coder", kernel),
        Turn("executor", build(kernel.source)),
        Turn("executor", evaluation(kernel.source, timed(1.9))),
        Turn("profiler", analysis()),
    ]


def in_a_log(text: str) -> list[Turn]:
    """The compiler says it, about a kernel that says it too."""
    kernel = Kernel(words="", source=BROKEN + f"/* {text.replace('*/', '')} */")
    log = f"line 1: error: #error {text}\nline 2: note: {text}"
    report = build(kernel.source).model_copy(update={"result": BuildFailed(log=log)})
    return [
        *baseline_turns(),
        Turn("planner", plan()),
        Turn("coder", kernel),
        Turn("executor", report),
    ]


def in_a_crash(text: str) -> list[Turn]:
    """The kernel's last words say it."""
    return [
        *baseline_turns(),
        Turn("planner", plan()),
        *coded(VECTOR),
        Turn("executor", evaluation(VECTOR, Crashed(case=CASE, message=f"signal 6\n{text}"))),
    ]


def in_a_rejection(text: str) -> list[Turn]:
    """The human quotes it."""
    kernel = Kernel(words="", source=VECTOR)
    rejected = Approval(candidate=kernel.candidate, decision="reject", reason=text)
    return [
        *asking_turns(),
        Turn("planner", plan()),
        Turn("coder", kernel),
        Turn("executor", build(VECTOR)),
        Turn("human", rejected),
    ]


def in_a_refusal(text: str) -> list[Turn]:
    """The guard quotes it, out of a directive."""
    kernel = Kernel(words="", source=source(text))
    refused = Refused(gate="guard", findings=(Finding(line=1, what=f"#pragma {text}: no"),) * 3)
    report = build(kernel.source).model_copy(update={"result": refused})
    return [
        *baseline_turns(),
        Turn("planner", plan()),
        Turn("coder", kernel),
        Turn("executor", report),
    ]


def in_names(text: str) -> list[Turn]:
    """Kernel, opcode and place of a finding are called so, and the human's own source says it."""
    unsafe = Unsafe(case=CASE, what=text, where=text)
    lacking = Unsupported(what=text, kernel=text, opcode=text, line=1)
    turns = [*asking_turns(), Turn("planner", plan())]
    for speaker, words, outcome in (("coder", "", unsafe), ("human", text, lacking)):
        kernel = Kernel(words=words, source=f"{source(text)}// {speaker}\n")
        turns += [
            Turn(speaker, kernel),
            Turn("executor", build(kernel.source)),  # type: ignore[arg-type]
            Turn("executor", evaluation(kernel.source, outcome)),
        ]
    return turns


PLACES = (
    in_words,
    in_a_kernel,
    in_a_log,
    in_a_crash,
    in_a_rejection,
    in_a_refusal,
    in_names,
)


@pytest.fixture(scope="module")
def context(tmp_path_factory: pytest.TempPathFactory) -> ChatContext:
    folder = tmp_path_factory.mktemp("task")
    for name, text in (("task.toml", TASK_TOML), ("reference.py", REFERENCE)):
        (folder / name).write_text(text)
    (folder / "baseline.cu").write_text(SCALAR)
    return ChatContext(load_task(folder), SCALAR, "sglang", "virtual")


def outline(prompt: str) -> list[str]:
    """Titles of a prompt as CommonMark reads it: what a model may take for ours."""
    titles, fence = [], ""
    for line in prompt.split("\n"):
        mark = re.match(r" {0,3}(`{3,}|~{3,})(.*)", line)
        if fence:
            closes = mark and mark[1].startswith(fence) and not mark[2].strip()
            fence = "" if closes else fence
        elif mark and not (mark[1][0] == "`" and "`" in mark[2]):
            fence = mark[1]
        elif re.match(r" {0,3}(#+ |=+ *$|-{2,} *$|<[/!?a-z])", line):
            titles.append(line.split(":")[0])
    assert not fence, "a fence was left open"
    return titles


def plain_prompt(role: RoleName, place: Callable[[str], list[Turn]], context: ChatContext) -> str:
    key = role, place.__name__
    if key not in PLAIN:
        PLAIN[key] = turn_prompt(role, context, state_of(place(NEUTRAL)))
    return PLAIN[key]


PLAIN: dict[tuple[RoleName, str], str] = {}


@pytest.mark.sampled(80)
@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_nothing_changes(
    context: ChatContext, place: Callable[[str], list[Turn]], text: str
) -> None:
    said, neutral = place(text), place(NEUTRAL)
    for end in range(1, len(said) + 1):
        step, other = next_step(state_of(said[:end])), next_step(state_of(neutral[:end]))
        assert type(step) is type(other) and speakers(step) == speakers(other)
    lying, honest = state_of(said), state_of(neutral)
    assert (lying.best is None) == (honest.best is None)
    assert (lying.parent is None) == (honest.parent is None)
    for role in MODEL_ROLES:
        _same_form(
            role, turn_prompt(role, context, state_of(said)), plain_prompt(role, place, context)
        )


def _same_form(role: RoleName, prompt: str, neutral: str) -> None:
    assert outline(prompt) == outline(neutral), role
    assert read_position(prompt) == read_position(neutral)
    assert prompt.split("\n")[-1] == neutral.split("\n")[-1]


@pytest.mark.parametrize("place", [in_words, in_a_log, in_a_rejection, in_a_refusal, in_names])
def test_endless_words_leave_room(context: ChatContext, place: Callable[[str], list[Turn]]) -> None:
    """A source is shown whole; words and findings are cut: they would fill every later prompt."""
    said = [
        turn
        if not isinstance(turn.payload, Kernel)
        else Turn(turn.speaker, turn.payload.model_copy(update={"source": VECTOR}))
        for turn in place(ENDLESS)
    ]
    for role in MODEL_ROLES:
        prompt = turn_prompt(role, context, state_of(said))
        assert len(prompt) < MAX_CHARACTERS, role
    assert len(question(state_of(in_words(ENDLESS)), ("planner", "tester"))) < 10_000


@pytest.mark.parametrize("text", TEXTS, ids=range(len(TEXTS)))
def test_the_selectors_question_keeps_its_form(text: str) -> None:
    asked, neutral = (
        question(state_of(in_words(one)), ("planner", "tester")) for one in (text, NEUTRAL)
    )
    assert len(asked.split("\n")) == len(neutral.split("\n"))
    assert asked.split("\n")[-1] == neutral.split("\n")[-1]


@pytest.mark.parametrize("place", PLACES, ids=lambda place: place.__name__)
def test_the_terminal_shows_text_and_nothing_else(
    tmp_path: Path, place: Callable[[str], list[Turn]]
) -> None:
    for number, text in enumerate(TEXTS):
        out = io.StringIO()
        view = View(console(out))
        for record in read(write_transcript(tmp_path / f"{number}.jsonl", place(text))).records:
            view.show(record)
        shown = out.getvalue()
        unseen = [char for char in shown if unicodedata.category(char) in UNSEEN and char != "\n"]
        assert not unseen, repr(text)
        assert "\N{WHITE HEAVY CHECK MARK}" not in shown


def test_markup_is_shown_as_it_stands() -> None:
    out = io.StringIO()
    console(out).print("[bold red]accepted[/bold red] :white_check_mark:")
    assert out.getvalue() == "[bold red]accepted[/bold red] :white_check_mark:\n"


@pytest.mark.second_tier
def test_a_real_compiler_says_it_and_the_fixer_speaks(task: Task) -> None:
    """nvcc prints the words; what counts is that there is no object."""
    texts = [text for text in TEXTS if "\n" not in text and text.isprintable()]
    errors = "\n".join(f"#error {text}" for text in texts)
    kernel = Kernel(words="", source=f"{errors}\n{task.baseline}")
    with Judge(task, pick_device("virtual", None)) as judge:
        report = judge.build(kernel.source)
    assert isinstance(report.result, BuildFailed) and "TERMINATE" in report.result.log
    turns = [
        *baseline_turns(),
        Turn("planner", plan()),
        Turn("coder", kernel),
        Turn("executor", report),
    ]
    assert speakers(next_step(state_of(turns))) == ("fixer",)
