"""What an earlier question said in the same words is named, not repeated."""

from __future__ import annotations

from pathlib import Path

from astra_chat.mailbox.brief import WORTH, brief, sections
from astra_chat.mailbox.questions import Question, ask, questions
from tests.astra_chat.mailbox_samples import meta

RULES = f"# Instructions\n\n{'Be correct first. ' * (WORTH // 10)}\n\n"
CODE = "```cuda\n# no heading of Markdown\n#include <cstdint>\n```\n"


def asked(box: Path, name: str, prompt: str, when: str, **changes: object) -> Question:
    return ask(box, meta(name, asked=when, **changes), prompt, {"type": "object"})


def test_sections_are_the_text_again() -> None:
    text = f"before\n{RULES}## Source\n\n{CODE}\n# Prompt\n\nwhat next\n"
    parts = sections(text)
    assert "".join(parts) == text and len(parts) == 4
    assert parts[2] == f"## Source\n\n{CODE}\n"
    outer = f"# A\n````text\n{CODE}# inside\n````\n# B\n"
    assert sections(outer) == [outer[:-4], "# B\n"]


def test_a_section_in_the_same_words_is_named_where_it_first_stood(tmp_path: Path) -> None:
    first = asked(tmp_path, "a", f"# Question a\n\n{RULES}# Prompt\n\none\n", "2026-01-01")
    asked(tmp_path, "b", f"# Question b\n\n{RULES}# Prompt\n\ntwo\n", "2026-01-02")
    third = asked(tmp_path, "c", f"# Question c\n\n{RULES}# Prompt\n\nthree\n", "2026-01-03")
    place = f"(as before: {first.folder / 'prompt.md'}, lines 3 to 5)"
    expected = f"# Question c\n\n# Instructions\n\n{place}\n\n# Prompt\n\nthree\n"
    assert brief(third, questions(tmp_path)) == expected
    assert first.prompt.splitlines()[2:5] == RULES.splitlines()[:3]
    assert brief(first, questions(tmp_path)) == first.prompt


def test_other_roles_and_runs_were_told_nothing(tmp_path: Path) -> None:
    asked(tmp_path, "a", RULES, "2026-01-01", role="planner")
    asked(tmp_path, "b", RULES, "2026-01-01", run="run-2")
    asked(tmp_path, "c", RULES.replace("Be", "Stay"), "2026-01-01")
    own = asked(tmp_path, "d", RULES, "2026-01-02")
    assert brief(own, questions(tmp_path)) == RULES
