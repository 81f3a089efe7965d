"""Commands are found in pages, run in their order, and written down with what came of them."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

from lab.walk_docs import (
    RULES,
    PageRules,
    Rule,
    Walk,
    Walked,
    WalkedPage,
    as_it_is_now,
    commands,
    document,
    pages,
    walk_docs_rules,
    walked_before,
)

PAGE = """# A page

A sentence with `astra-chat run TASK --approve`.

    astra-chat check TASK my.cu --device virtual   # a comment
    my.cu            a file of yours
    --models mailbox:DIR                           # options of a run
    python -m lab.baselines measure \\
        --triton made

```bash
echo one > made
```

```python
first = 1
```

```python
print(first)
```
"""


def test_commands_of_blocks_are_found_and_nothing_else() -> None:
    found = list(commands("page.md", PAGE))
    assert [(one.language, one.title) for one in found] == [
        ("bash", "astra-chat run TASK --approve"),
        ("bash", "astra-chat check TASK my.cu --device virtual"),
        ("bash", "astra-chat run TASK --models mailbox:DIR"),
        ("bash", "python -m lab.baselines measure --triton made"),
        ("bash", "echo one > made"),
        ("python", "first = 1 ... (2 lines, 04cc7e)"),
    ]


def test_a_page_is_walked_in_order_with_its_stand_ins(tmp_path: Path) -> None:
    text = (
        "```bash\ncat made && echo FILE > more\n```\n    git wrong\n    pip install this\n\n"
        "```bash\ngrep mine more && false\n```"
    )
    own = PageRules(
        before="echo begun > made",
        instead={"FILE": "mine"},
        rule=(
            Rule(match="git wrong", run="exit 4", exit=4, note="exit code 4"),
            Rule(match="pip", skip="installs packages"),
        ),
    )
    (tmp_path / "work").mkdir()
    walked = list(Walk(tmp_path / "work", PageRules(), own, 60).page(list(commands("a", text))))
    assert [one.state for one in walked] == ["ok", "ok", "not walked", "failed"]
    assert "mine" in walked[0].note and walked[1].note == "exit code 4"
    assert walked[2].note == "installs packages" and walked[3].note == "exit code 1: mine"


def test_what_takes_too_long_is_not_walked(tmp_path: Path) -> None:
    rules = PageRules(rule=(Rule(match="make", run="sleep 600", note="a long sleep"),))
    (tmp_path / "work").mkdir()
    walk = Walk(tmp_path / "work", PageRules(), rules, 0.2)
    (one,) = walk.page(list(commands("a", "    make slow\n")))
    assert (one.state, one.note) == ("not walked", "takes longer than 0.2 s")


def test_rules_are_of_pages_and_say_what_is_done() -> None:
    rules = walk_docs_rules()
    assert rules.keys() - {"everywhere"} <= set(pages())
    for own in rules.values():
        assert all(re.compile(text) for text in own.instead)
        assert all(re.compile(rule.match) and rule != Rule(match=rule.match) for rule in own.rule)
    assert tomllib.loads(RULES.read_text()).keys() == rules.keys()


def test_the_document_counts_dates_and_is_read_again(tmp_path: Path) -> None:
    some = (
        Walked(command="astra-chat doctor", state="ok", seconds=2, note="as: astra-chat [x]"),
        Walked(command="make gpu", state="not walked", note="needs a GPU"),
        Walked(command="make more", state="failed", note="exit code 2: no rule"),
    )
    pages = [WalkedPage(page=name, date="2026-11-28", commands=some) for name in ("A.md", "b/C.md")]
    text = document(pages)
    assert "2 ok, 2 failed, 2 not walked" in text and "## A.md, 2026-11-28" in text
    assert re.search(r"^ok 2 s +astra-chat doctor   \[as: astra-chat \[x\]\]$", text, re.MULTILINE)
    assert re.search(r"^not walked +make gpu +\[needs a GPU\]$", text, re.MULTILINE)
    (tmp_path / "walked.md").write_text(text)
    assert walked_before(tmp_path / "walked.md") == {page.page: page for page in pages}


def test_commands_that_changed_after_the_walk_are_named() -> None:
    """One of one line, and a longer one whose first line and length stay; what is gone is gone."""
    block = "```bash\ncd made\nls {}\n```\n"
    then = list(commands("a", f"    git status\n    git log\n\n{block.format('a')}"))
    now = list(commands("a", f"    git status\n    make gpu\n\n{block.format('b')}"))
    old = tuple(Walked(command=one.title, state="ok") for one in then)
    rules = PageRules(rule=(Rule(match="gpu", skip="needs a GPU"),))
    page = WalkedPage(page="a", date="2026-11-28", commands=old)
    found = as_it_is_now(now, page, rules).commands
    assert [(one.state, one.note) for one in found] == [
        ("ok", ""),
        ("not walked", "needs a GPU"),
        ("not walked", "not run in this form yet"),
    ]
