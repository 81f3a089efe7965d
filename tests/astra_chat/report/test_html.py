"""The report holds what the transcript says, and nothing in a transcript becomes markup."""

from __future__ import annotations

import base64
import hashlib
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from astra_chat.agents.turns import Approval, Kernel, Turn
from astra_chat.report.html import report
from astra_chat.tools.descriptions import describe
from astra_chat.tools.recordings.reading import expanded
from astra_chat.tools.types import SourceLine, candidate_id
from astra_chat.transcript.events import Contradiction, Deviation, Event, RejectedReply
from astra_chat.transcript.reader import read
from astra_chat.transcript.spending import ModelCall, Tokens
from astra_chat.transcript.writer import Writer
from tests.chat_samples import (
    BROKEN,
    VECTOR,
    WRONG,
    WRONG_OUTCOME,
    analysis,
    asking_turns,
    baseline_turns,
    build,
    coded,
    evaluation,
    plan,
    timed,
    write_transcript,
)
from tests.recorded_files import EXAMPLES

ROOT = Path(__file__).parents[3]
EVIL = "<script>alert(1)</script>\u202e"
VOID = {"meta", "br", "input"}
DRAWN = {"g", "path", "use", "rect"}


class Checker(HTMLParser):
    """Every element is closed, no attribute runs or fetches anything, and links stay inside."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.seen: list[str] = []
        self.ids: list[str] = []
        self.links: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.look(tag, attrs)
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        assert tag in DRAWN, tag
        self.look(tag, attrs)

    def look(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append(tag)
        for name, value in attrs:
            assert not name.startswith("on") and name not in ("src", "action", "srcset")
            if name in ("href", "xlink:href"):
                assert str(value).startswith("#")
                self.links.append(str(value)[1:])
            if name == "id":
                self.ids.append(str(value))

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag


def elements(page: str) -> list[str]:
    """Names of all elements of a well-formed page."""
    checker = Checker()
    checker.feed(page)
    checker.close()
    assert not checker.open
    assert checker.seen.count("script") == 1 and script_is_the_allowed_one(page)
    assert set(checker.links) <= set(checker.ids) and len(checker.ids) == len({*checker.ids})
    return checker.seen


def script_is_the_allowed_one(page: str) -> bool:
    """The policy names it by its hash, so that no other one would run."""
    script = page[page.index("<script>") + 8 : page.index("</script>")]
    found = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    return f"script-src 'sha256-{found}'" in page and "default-src 'none'" in page


@pytest.mark.second_tier
def test_measured_runs_side_by_side() -> None:
    paths = expanded([EXAMPLES / "h200/*.jsonl"])
    assert len(paths) == 3
    page = report([read(path) for path in paths])
    assert page.lower().count("measured on nvidia h200") >= 4 and "stimated for" not in page
    assert "3 runs" in page and "<ins data-n=" in page and "<del data-n=" in page
    assert elements(page).count("svg") == 21


def test_what_models_say_is_never_markup(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    text = path.read_text()
    for field in ('"title":"', '"words":"', '"why":"'):
        assert field in text
        text = text.replace(field, field + EVIL)
    path.write_text(text)
    page = report([read(path)])
    assert "\\x202e" in page and "\u202e" not in page, "nor does it turn what is beside it"
    assert "&lt;script&gt;" in page and page.count("<script") == 1
    assert "Estimated for NVIDIA H200" in page
    elements(page)


def test_the_plot_and_the_summary_say_the_same(tmp_path: Path) -> None:
    page = report([read(write_transcript(tmp_path / "t.jsonl"))])
    words = f"round 1, {candidate_id(VECTOR)}: faster 1.90x (1.72 to 2.10)"
    assert f"<title>{words}</title>" in page
    assert '<span class="fig">1.90x</span> as fast as the baseline' in page
    assert '<span class="fig">1.72 to 2.10</span>' in page
    assert "Not confirmed on fresh seeds" in page


def test_what_a_reader_of_several_runs_wants_to_know(tmp_path: Path) -> None:
    """Strategy, models, what each plan changes, why attempts failed, doubts and deviations."""
    kernel = Kernel(words="", source=VECTOR)
    broken, wrong = Kernel(words="", source=BROKEN), Kernel(words="", source=WRONG)
    turns = [
        *asking_turns(),
        *(Turn("planner", plan()), Turn("coder", kernel), Turn("executor", build(VECTOR))),
        Turn("human", Approval(candidate=kernel.candidate, decision="approve_all")),
        *(Turn("executor", evaluation(VECTOR, timed(1.9))), Turn("profiler", analysis())),
        *(Turn("planner", plan()), Turn("coder", broken), Turn("executor", build(BROKEN))),
        *(Turn("fixer", wrong), Turn("executor", build(WRONG))),
        Turn("executor", evaluation(WRONG, WRONG_OUTCOME)),
    ]
    transcript = read(write_transcript(tmp_path / "t.jsonl", turns))
    whole = Writer(tmp_path / "whole.jsonl", "run-1")
    whole.append(*(record.event for record in transcript.records[:-1]))
    whole.append(
        Contradiction(speaker="planner", reason="no such line", stands=True),
        Deviation(candidate="abc", expected="tie", found="accepted"),
    )
    whole.close()
    page = report([read(tmp_path / "whole.jsonl")])
    assert "strategy best, models scripted" in page
    link = f'in <a href="#run1-source-{kernel.candidate}"><code>{kernel.candidate}</code></a>'
    assert f"{link}. Predicts 1.50x" in page, "what the second plan changes"
    assert "line 5: error: identifier &#34;inn&#34; is undefined" in page
    assert describe(WRONG_OUTCOME).splitlines()[0] in page
    assert "<li>planner: no such line</li>" in page
    assert "<li>abc: expected tie, found accepted</li>" in page
    assert "<th>warm:" not in page, "an estimate has no such column"
    elements(page)


def test_the_best_kernel_s_lines_tell_what_they_cost(tmp_path: Path) -> None:
    line = SourceLine(line=4, calls=(9,), text=EVIL, chain_cycles=30, load_rounds=1)
    one = timed(1.9)
    known = one.model_copy(update={"profile": one.profile.model_copy(update={"lines": (line,)})})
    turns = [
        *baseline_turns(),
        Turn("planner", plan()),
        *coded(VECTOR),
        Turn("executor", evaluation(VECTOR, known)),
    ]
    page = report([read(write_transcript(tmp_path / "t.jsonl", turns))])
    assert "by line of the best kernel" in page
    assert "<td>line 4, inlined at 9</td><td><code>&lt;script&gt;alert(1)" in page
    elements(page)


def test_what_the_human_did_not_want_is_said(tmp_path: Path) -> None:
    kernel = Kernel(words="", source=VECTOR)
    no = Approval(candidate=kernel.candidate, decision="reject", reason="too <b>bold")
    turns = [
        *asking_turns(),
        Turn("planner", plan()),
        Turn("coder", kernel),
        Turn("executor", build(VECTOR)),
        Turn("human", no),
    ]
    page = report([read(write_transcript(tmp_path / "t.jsonl", turns))])
    assert "Rejected by the human: too &lt;b&gt;bold</p>" in page
    elements(page)


def test_a_killed_run_without_a_round(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:4]))
    page = report([read(path)])
    assert "killed before it ended" in page and "<svg" not in page
    assert "No round has started." in page
    elements(page)


def row(page: str, name: str) -> list[str]:
    """Cells of the table row that begins with a name."""
    found = re.search(rf"<tr><td>{name}</td>(.*?)</tr>", page, re.DOTALL)
    assert found is not None, name
    return re.findall(r"<td[^>]*>(.*?)</td>", found[1])


def test_what_was_spent_by_role_by_step_and_why_not_taken(tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    transcript = read(path)
    one = Tokens(prompt=1000, cached=300, completion=50, reasoning=20, usd=0.25)
    spent: list[Event] = [
        ModelCall(role="coder", model="m", tokens=one),
        RejectedReply(speaker="coder", reason="empty"),
        ModelCall(role="coder", model="m", tokens=one),
        ModelCall(role="selector", model="m", tokens=one),
    ]
    whole = Writer(tmp_path / "whole.jsonl", "run-1")
    whole.append(*(record.event for record in transcript.records[:-1]))
    whole.append(*spent)
    whole.close()
    page = report([read(tmp_path / "whole.jsonl")])
    assert row(page, "coder") == [
        "2",
        "2,000",
        "600",
        "100",
        "40",
        "$0.5000",
        "1",
        "1,050",
        "$0.2500",
    ]
    assert row(page, "selector")[0] == "1" and row(page, "selector")[6:] == ["0", "0", "$0.0000"]
    assert row(page, "all")[1] == "3,000" and row(page, "all")[6] == "1"
    assert row(page, "check") == ["0.2", "0.0"] and row(page, "build") == ["1.5", "0.0"]
    assert row(page, "unusable reply") == ["1"]
