"""What is shown is text: no markup, no control code, nothing unseen; colour on terminals only."""

from __future__ import annotations

import io

import pytest
from rich.text import Text

from astra_chat.display.console import WIDTH, console


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def shown(text: str | Text, out: io.StringIO) -> str:
    console(out).print(text)
    return out.getvalue()


def test_markup_is_shown_as_it_stands() -> None:
    text = "[bold red]accepted[/bold red] :white_check_mark: http://example.invalid 'x' 1.5"
    assert shown(text, io.StringIO()) == text + "\n"


@pytest.mark.parametrize(
    ("text", "spelt"),
    [
        ("\x1b[2J", "\\x1b[2J"),
        ("\x9b31m", "\\x9b31m"),
        ("\u202edetpecca", "\\x202edetpecca"),
        ("acc\u200bepted", "acc\\x200bepted"),
        ("\U000e0061", "\\xe0061"),
        ("a\u2028b", "a\\x2028b"),
        ("a\x7fb", "a\\x7fb"),
    ],
)
def test_what_is_not_seen_is_spelt_out(
    text: str, spelt: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert shown(Text(text), io.StringIO()) == spelt + "\n"
    assert shown(Text(text, "red"), Terminal()).count("\x1b") == 2, "the style's own codes alone"


@pytest.mark.parametrize("code", "\a\b\v\f\r")
def test_what_moves_the_cursor_is_left_out(code: str) -> None:
    """Rich itself leaves it out, before we see it."""
    assert shown(Text(f"a{code}b"), io.StringIO()) == "ab\n"


def test_letters_of_all_languages_stay() -> None:
    text = "größer, быстрее, より速い, e\u0301, ⚠️"
    assert shown(text, io.StringIO()) == text + "\n"


def test_a_file_has_a_fixed_width_and_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("COLUMNS", "FORCE_COLOR"):
        monkeypatch.delenv(name, raising=False)
    out = console(io.StringIO())
    assert out.width == WIDTH and out.color_system is None and not out.is_terminal
    assert "\x1b" not in shown(Text("x", "bold red"), io.StringIO())


def test_a_terminal_has_its_own_width_and_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "57")
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    assert console(Terminal()).width == 57
    assert "\x1b[" in shown(Text("x", "red"), Terminal())


def test_no_color_is_obeyed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(Text("x", "red"), Terminal()) == "x\n"


def test_without_a_file_it_is_stdout(capsys: pytest.CaptureFixture[str]) -> None:
    console().print("hello")
    assert capsys.readouterr().out == "hello\n"


def test_columns_says_how_wide_a_file_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "57")
    assert console(io.StringIO()).width == 57
    monkeypatch.setenv("COLUMNS", "wide")
    assert console(io.StringIO()).width == WIDTH


def test_force_color_colors_a_file_and_no_color_wins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    monkeypatch.setenv("FORCE_COLOR", "1")
    assert shown(Text("x", "red"), io.StringIO()) == "\x1b[31mx\x1b[0m\n"
    assert not console(io.StringIO()).is_terminal, "no bars in a file"
    monkeypatch.setenv("NO_COLOR", "1")
    assert shown(Text("x", "red"), io.StringIO()) == "x\n"


def test_empty_variables_say_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("NO_COLOR", "")
    monkeypatch.setenv("FORCE_COLOR", "")
    assert shown(Text("x", "red"), io.StringIO()) == "x\n"
