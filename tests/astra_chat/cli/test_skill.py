"""SKILL.md: what it names exists, its frontmatter is the field's, and no file is lost."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from typer.testing import CliRunner

from astra_chat.cli.main import app
from astra_chat.cli.skill import SKILL, SNIPPET, text_of
from astra_vgpu.ground.errors import BadInput
from tests.test_docs import COMMAND, INLINE_COMMAND, refusal


@pytest.mark.parametrize("name", [SKILL, SNIPPET])
def test_every_command_is_one_that_the_program_takes(name: str) -> None:
    text = text_of(name)
    lines = COMMAND.findall(text) + [" ".join(one.split()) for one in INLINE_COMMAND.findall(text)]
    assert len(lines) >= 3
    assert [said for line in lines if (said := refusal(line))] == []


def test_the_frontmatter_has_name_and_description() -> None:
    head = re.match(r"---\nname: (.+)\ndescription: (.+)\n---\n\n# ", text_of(SKILL))
    assert head is not None
    assert re.fullmatch(r"[a-z0-9-]{1,64}", head[1]) and head[1] == "astra-chat"
    assert 50 < len(head[2]) <= 1024 and ": " not in head[2], "plain YAML"


def test_it_is_printed_or_written(tmp_path: Path) -> None:
    done = CliRunner().invoke(app, ["skill"])
    assert done.exit_code == 0 and done.stdout == text_of(SKILL)
    for _ in range(2):  # the same files again are no conflict
        done = CliRunner().invoke(app, ["skill", "--dir", str(tmp_path)])
        assert done.exit_code == 0 and str(tmp_path / "astra-chat" / SKILL) in done.stdout
    assert (tmp_path / "astra-chat" / SKILL).read_text() == text_of(SKILL)
    assert (tmp_path / "astra-chat" / SNIPPET).read_text() == text_of(SNIPPET)


def test_a_file_of_the_user_stays(tmp_path: Path) -> None:
    mine = tmp_path / "astra-chat" / SKILL
    mine.parent.mkdir()
    mine.write_text("mine")
    done = CliRunner().invoke(app, ["skill", "--dir", str(tmp_path)])
    assert isinstance(done.exception, BadInput) and "use --force to replace it" in str(
        done.exception
    )
    assert mine.read_text() == "mine" and not (mine.parent / SNIPPET).exists()
    assert CliRunner().invoke(app, ["skill", "--dir", str(tmp_path), "--force"]).exit_code == 0
    assert mine.read_text() == text_of(SKILL)


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    done = CliRunner().invoke(app, ["skill", "--dir", str(tmp_path / "file")])
    assert isinstance(done.exception, BadInput), done.output
