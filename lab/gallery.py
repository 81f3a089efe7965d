"""Make pictures of output and of a report: `python -m lab.gallery -o docs/gallery [NAME...]`.

The commands of SCREENS run in tmux, which is a terminal, and its screen becomes an SVG. Chromium
takes screenshots of a report. This needs tmux and, for the report, Chromium and the extra
`browser`. The commands that judge kernels take minutes.

A terminal's screen is an SVG with its text, so that it stays sharp and small.
"""

from __future__ import annotations

import argparse
import io
import lzma
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from html import escape
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from rich.ansi import AnsiDecoder
from rich.console import Console
from rich.style import Style
from rich.terminal_theme import TerminalTheme
from rich.text import Text

from astra_chat.tools.system.files import write_whole
from astra_vgpu.ground.errors import BadInput, MissingDependency
from lab.commands import one_line_errors

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT = Path(__file__).resolve().parents[1]
LIVE = "transcripts/recorded.tar.xz/live/detached/silu_and_mul-sglang-team-2.jsonl"
"""A run that language models answered and an H200 judged."""
SCRIPT = ROOT / "sglang_kernels/silu_and_mul/script"
SOURCES = {
    "old.cu": (SCRIPT.parent / "baseline.cu").read_text(),
    "new.cu": (SCRIPT / "fitted.cu").read_text(),
    "wrong.cu": (SCRIPT / "no_tail.cu").read_text(),
    "marked.cu": (SCRIPT / "two_vectors.cu")
    .read_text()
    .replace("kThreads = 256;", "kThreads = 256;  // tune: 64 128 256 512"),
}
"""Kernels beside the commands."""
Theme = Literal["light", "dark"]
MOST_LINES = 46
PERIOD_S, LIMIT_S = 0.2, 1800.0


@dataclass(frozen=True)
class Screen:
    """A command, and when its screen is taken."""

    name: str
    command: str
    until: str = ""
    """Taken as soon as it shows this; empty: at the command's end, then with all it printed."""
    of: Literal["beginning", "end"] = "end"
    """Which lines are shown, where more than MOST_LINES were printed."""
    columns: int = 100


SCREENS = (
    Screen("rounds", "astra-chat run silu_and_mul", until="round 2 of"),
    Screen("end", "astra-chat run silu_and_mul"),
    Screen(
        "replay",
        "astra-chat replay transcripts/examples/silu_and_mul-h200.jsonl.xz --round 2",
        of="beginning",
    ),
    Screen("check", "astra-chat check silu_and_mul wrong.cu --device virtual"),
    Screen("gate", "astra-chat gate silu_and_mul old.cu new.cu --device virtual"),
    Screen(
        "tune",
        "astra-chat tune silu_and_mul marked.cu -o best.cu"
        " --device virtual --judged 2 --cases demo",
    ),
)
REPORT = f"astra-chat report {LIVE} -o report.html"
PAGES: Mapping[str, tuple[int, int, Theme, str]] = {
    "report-light": (1000, 600, "light", "#summary"),
    "report-dark": (1000, 440, "dark", "#run1-round1"),
    "report-phone": (390, 900, "dark", "#run1-cases"),
}
"""Width, height, theme and place of each picture of the page."""


@contextmanager
def workplace() -> Iterator[Path]:
    """A folder with what the commands name, where they may write."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "transcripts").mkdir()
        for shared in ("examples", "recorded.tar.xz"):
            (folder / "transcripts" / shared).symlink_to(ROOT / "transcripts" / shared)
        for file, text in SOURCES.items():
            (folder / file).write_text(text)
        yield folder


class Terminal:
    """One command in a terminal of its own."""

    def __init__(self, command: str, folder: Path, columns: int) -> None:
        self._server, self._done = f"astra-gallery-{os.getpid()}", folder / "done"
        self._done.unlink(missing_ok=True)
        astra = f'astra-chat() {{ {shlex.quote(sys.executable)} -m astra_chat "$@"; }}'
        line = f"{astra}; {command}; touch {self._done}; sleep {LIMIT_S:.0f}"
        paths = f"{ROOT}:{ROOT / 'tools/virtual_gpu'}"
        words = [
            "env",
            f"PYTHONPATH={paths}",
            "PAGER=cat",
            "COLORTERM=truecolor",
            "bash",
            "-c",
            line,
        ]
        size = ["-x", str(columns), "-y", "24"]
        self._tmux("new-session", "-d", *size, "-c", str(folder), *words)

    def wait(self, until: str) -> None:
        """Until the screen shows a text; for an empty one, until the command has ended."""
        ends = time.monotonic() + LIMIT_S
        while not self._done.exists():
            if until and until in self._tmux("capture-pane", "-p"):
                return
            if time.monotonic() > ends:
                raise BadInput(f"{LIMIT_S:.0f} s passed without {until or 'an end'!r}")
            time.sleep(PERIOD_S)

    def lines(self) -> list[str]:
        """What was printed, with colours, without empty lines at both ends."""
        return self._tmux("capture-pane", "-p", "-e", "-S", "-").strip("\n").splitlines()

    def close(self) -> None:
        self._tmux("kill-server")

    def _tmux(self, *words: str) -> str:
        command = ["tmux", "-L", self._server, "-f", "/dev/null", *words]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout


def take_screens(names: set[str], out: Path) -> Iterator[Path]:
    if shutil.which("tmux") is None:
        raise MissingDependency("no tmux: apt-get install tmux")
    wanted = [one for one in SCREENS if one.name in names]
    for command, screens in groupby(wanted, lambda one: one.command):
        with workplace() as folder:
            same = list(screens)
            terminal = Terminal(command, folder, same[0].columns)
            try:
                for one in same:
                    terminal.wait(one.until)
                    lines = terminal.lines()
                    shown = lines[:MOST_LINES] if one.of == "beginning" else lines[-MOST_LINES:]
                    path = out / f"{one.name}.svg"
                    write_whole(path, picture(command, shown, one.columns).encode())
                    yield path
            finally:
                terminal.close()


def take_pages(names: set[str], out: Path) -> Iterator[Path]:
    """The report as a compressed file, and its pictures."""
    with tempfile.TemporaryDirectory() as folder:
        page = written_report(Path(folder) / "report.html")
        packed = out / "report.html.xz"
        packed.write_bytes(lzma.compress(page.read_bytes(), preset=9 | lzma.PRESET_EXTREME))
        yield packed
        for name in (name for name in PAGES if name in names):
            yield _photographed(page, out / f"{name}.webp", *PAGES[name])


def written_report(page: Path) -> Path:
    words = [sys.executable, "-m", "astra_chat", *shlex.split(REPORT)[1:-1], str(page.resolve())]
    subprocess.run(words, cwd=ROOT, check=True, stdout=subprocess.DEVNULL)
    return page


def _photographed(
    page: Path, path: Path, width: int, height: int, theme: Theme, place: str
) -> Path:
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        raise MissingDependency("no playwright: pip install 'astra-chat[browser]'") from None
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise MissingDependency("no Chromium: apt-get install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        shown = browser.new_page(viewport={"width": width, "height": height}, color_scheme=theme)
        shown.goto(page.resolve().as_uri())
        write_whole(path, _small(_seen(shown, place)))
        browser.close()
    return path


def _seen(page: Page, place: str) -> bytes:
    """The window below a place; of a round, with what its last candidate changed."""
    page.locator(f"{place} details").last.evaluate_all("all => all.forEach(e => { e.open = true })")
    page.locator(place).evaluate("e => e.scrollIntoView()")
    image: bytes = page.screenshot()
    return image


def _small(image: bytes) -> bytes:
    """The picture in 64 colours, rare ones among them."""
    from PIL import Image

    out = io.BytesIO()
    whole = Image.open(io.BytesIO(image)).convert("RGB")
    few = whole.quantize(64, Image.Quantize.MAXCOVERAGE, dither=Image.Dither.NONE)
    few.convert("RGB").save(out, "WEBP", lossless=True, quality=100, method=6)
    return out.getvalue()


@one_line_errors()
def main() -> None:
    known = [one.name for one in SCREENS] + list(PAGES)
    parser = argparse.ArgumentParser(prog="python -m lab.gallery", description=__doc__)
    parser.add_argument("-o", "--out", type=Path, required=True, metavar="FOLDER")
    parser.add_argument("names", nargs="*", metavar="NAME", help=f"of {', '.join(known)}")
    given = parser.parse_args()
    if unknown := set(given.names) - set(known):
        raise BadInput(
            f"there is no picture {', '.join(sorted(unknown))}: choose from {', '.join(known)}"
        )
    names = set(given.names or known)
    given.out.mkdir(parents=True, exist_ok=True)
    for path in take_screens(names, given.out):
        print(path, flush=True)
    if names & PAGES.keys():
        for path in take_pages(names, given.out):
            print(path, flush=True)


INK, MUTED, PAPER, BAR = "#e4e7eb", "#a2abb6", "#15181c", "#262c34"
COLORS = ("#15181c", "#f28b82", "#69c98a", "#e3ac4d", "#6aaef5", "#d493e6", "#5fc7d1", "#e4e7eb")
"""The report's, in its dark theme: black, red, green, yellow, blue, magenta, cyan, white."""
SIZE, ROW, EDGE, TOP = 14, 19, 14, 40
"""Pixels: of letters, from one line to the next, around the text, and of the bar above it."""
CHARACTER = 0.61 * SIZE
FONT = "ui-monospace,SFMono-Regular,Menlo,'DejaVu Sans Mono',Consolas,monospace"


def picture(command: str, lines: Sequence[str], columns: int) -> str:
    """The SVG of these lines, with their escape sequences, below the command that printed them."""
    classes: dict[str, str] = {}
    shown = AnsiDecoder().decode("\n".join(line.rstrip() for line in lines))
    texts = [
        f'<text x="{EDGE}" y="{TOP + ROW * (row + 1)}">{_markup(line, classes)}</text>'
        for row, line in enumerate(shown)
        if line.plain.strip()
    ]
    width, height = round(columns * CHARACTER + 2 * EDGE), TOP + ROW * len(lines) + EDGE
    rules = "".join(f".{name}{{{css}}}" for css, name in classes.items())
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}">'
            f"<title>$ {escape(command)}</title>",
            f"<style>text{{font:{SIZE}px {FONT};fill:{INK};white-space:pre}}{rules}</style>",
            f'<rect width="{width}" height="{height}" rx="8" fill="{PAPER}"/>',
            f'<path d="M0 8a8 8 0 0 1 8-8h{width - 16}a8 8 0 0 1 8 8v{TOP - 14}H0z" fill="{BAR}"/>',
            f'<text x="{EDGE}" y="23" xml:space="preserve">$ {escape(command)}</text>',
            *texts,
            "</svg>\n",
        ]
    )


def _markup(line: Text, classes: dict[str, str]) -> str:
    """One line; each look of its text is a class."""
    found = []
    for text, style, _ in line.render(_CONSOLE):
        if text == "\n":
            continue
        look = _css(style or Style())
        if look and not text.isspace():
            name = classes.setdefault(look, "abcdefghijklmnopqrstuvwxyz"[len(classes)])
            found.append(f'<tspan class="{name}">{escape(text, quote=False)}</tspan>')
        else:
            found.append(escape(text, quote=False))
    return "".join(found)


def _css(style: Style) -> str:
    parts = []
    if style.dim:
        parts.append(f"fill:{MUTED}")
    elif style.color is not None and not style.color.is_default:
        parts.append(f"fill:{style.color.get_truecolor(_THEME).hex}")
    if style.bold:
        parts.append("font-weight:600")
    if style.italic:
        parts.append("font-style:italic")
    return ";".join(parts)


def _rgb(color: str) -> tuple[int, int, int]:
    return int(color[1:3], 16), int(color[3:5], 16), int(color[5:7], 16)


_CONSOLE = Console(force_terminal=True, color_system="truecolor")
_THEME = TerminalTheme(_rgb(PAPER), _rgb(INK), [_rgb(one) for one in COLORS])


if __name__ == "__main__":
    main()
