"""Runs the commands of the documents' code blocks and writes down what came of each:

    python -m lab.walk_docs walk PAGE...                   # without PAGE all
    python -m lab.walk_docs walk --only 'replay|report'    # the commands that match; others stay
    python -m lab.walk_docs refresh                        # names the commands that changed since

docs/walked.md is what they read and write. A page's commands run in their order in a folder of the
page's own, with this checkout's commands on the PATH. walk_docs.toml says what a page needs first,
what stands in for a key, a GPU or a file of the reader's, and what is not run, and why.

A command is a line of an indented block that begins with a program, a fenced block of bash, or all
fenced blocks of Python of a page, as one program.
"""

from __future__ import annotations

import argparse
import datetime
import hashlib
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from pydantic import Field, TypeAdapter

from astra_chat.tools.types import Value
from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors

ROOT = Path(__file__).resolve().parents[1]
PAGES = (
    "README.md",
    "docs/*.md",
    "transcripts/README.md",
    "tools/virtual_gpu/README.md",
    "tools/virtual_gpu/docs/*.md",
    "docs/research/*.md",
)
PROGRAM = re.compile(
    r"(?:[A-Z_]+=(?:\"[^\"]*\"|\S+) )*(?:taskset \S+ \S+ )?(?:\./|\.venv/bin/)?"
    r"(?:astra-chat|astra-vgpu(?:-nvcc)?|python|make|cmake|git|pip|ray|export|pytest|build/app) "
)
"""The start of a line that is a command, not a file's text or what a program prints."""
OPTIONS = re.compile(r"--(?:models|base-url|budget) ")
"""The start of a line that shows options of `astra-chat run`."""
PIECE = re.compile(r"^```(\w*)[^\n]*\n(.*?)^```$|^((?: {4}[^\n]*\n)+)", re.MULTILINE | re.DOTALL)
INLINE = re.compile(r"`(astra-chat run TASK --approve)`")
"""The command within a sentence that no block has."""
COMMENT = re.compile(r"\s+# .*$|\s{4,}[^-\s].*$")
"""What follows a command on its line: a comment, or text set apart."""


@dataclass(frozen=True)
class DocCommand:
    """One command of a page."""

    page: str
    text: str
    language: str = "bash"

    @property
    def title(self) -> str:
        """The command on one line; of a longer block its first line and the text's sha256."""
        lines = self.text.strip().splitlines()
        digest = hashlib.sha256(self.text.encode()).hexdigest()[:6]
        more = f" ... ({len(lines)} lines, {digest})" if len(lines) > 1 else ""
        return lines[0] + more


def pages() -> list[str]:
    found = (path for glob in PAGES for path in sorted(ROOT.glob(glob)))
    return [path.relative_to(ROOT).as_posix() for path in found]


def commands(page: str, text: str) -> Iterator[DocCommand]:
    """All commands of a page's text."""
    yield from (DocCommand(page, line) for line in INLINE.findall(text))
    python = [block for language, block, _ in PIECE.findall(text) if language == "python"]
    for language, block, indented in PIECE.findall(text):
        if language == "bash":
            yield DocCommand(page, block)
        elif language == "python" and python:
            yield DocCommand(page, "".join(python), "python")
            python = []
        yield from (DocCommand(page, line) for line in _lines(indented))


def _lines(indented: str) -> Iterator[str]:
    """Commands of an indented block."""
    joined = re.sub(r"\\\n\s*", "", indented)
    for line in (raw.strip() for raw in joined.splitlines()):
        if OPTIONS.match(line):
            yield f"astra-chat run TASK {COMMENT.sub('', line)}"
        elif PROGRAM.match(f"{line} "):
            yield COMMENT.sub("", line)


RULES = Path(__file__).with_suffix(".toml")
OUT = ROOT / "docs/walked.md"
LIMIT_S = 600
"""Seconds that a command may take, unless its rule gives it more."""
TOOLS = {
    "astra-chat": "-m astra_chat",
    "astra-vgpu": "-m astra_vgpu",
    "astra-vgpu-nvcc": "-m astra_vgpu nvcc",
    "python": "",
}
LATER = "not run in this form yet"
SLOW = "takes longer than"
PAGE = re.compile(r"^## (\S+), ([^\n]*)\n\n```text\n(.*?)^```$", re.MULTILINE | re.DOTALL)
LINE = re.compile(r"(ok|failed|not walked)(?: (\d+) s)? +(.+?)(?: {3}\[(.*)\])?")
MOST_CHARACTERS = 400
"""Limit of what is kept of a failed command."""


class Rule(Value):
    """How commands that match are walked."""

    match: str
    """A regular expression, searched in the command."""
    skip: str = ""
    """Why they are not run."""
    run: str = ""
    """What is run for them; "" for the command, with what `instead` replaces."""
    note: str = ""
    """What `run` leaves out or adds."""
    exit: int = 0
    """The exit code that the page promises."""
    limit_s: float = 0
    """Seconds that it may take; 0: as every command."""
    background: bool = False
    """It runs until the page is done, and is interrupted then."""


class PageRules(Value):
    before: str = ""
    """Bash that is run first."""
    instead: dict[str, str] = Field(default_factory=dict)
    """Stand-ins, by regular expression."""
    rule: tuple[Rule, ...] = ()


class Walked(Value):
    """One command of a page."""

    command: str
    state: str
    """ok, failed, or not walked."""
    seconds: float = 0
    note: str = ""
    """What was run for it; why it was not run; or what it printed last."""


class WalkedPage(Value):
    page: str
    date: str
    commands: tuple[Walked, ...]


EMPTY = WalkedPage(page="", date="", commands=())


@dataclass
class Walk:
    """One page's folder, and what its commands leave to those behind them."""

    folder: Path
    everywhere: PageRules
    own: PageRules
    limit_s: float
    only: str = ""
    """A regular expression: other commands are left as they are in the file."""
    before: Mapping[str, Walked] = field(default_factory=dict)
    """What the file has of the page, by command."""
    exports: list[str] = field(default_factory=list)
    running: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def page(self, found: Sequence[DocCommand]) -> Iterator[Walked]:
        before = self.everywhere.before + self.own.before
        if before and any(re.search(self.only, one.text) for one in found):
            done, _, said = self._run(before, "bash", self.limit_s)
            if done != 0:
                raise BadInput(f"what comes before the commands fails: {said[-MOST_CHARACTERS:]}")
        for one in found:
            yield self._command(one)
        for process in self.running:
            os.killpg(process.pid, signal.SIGTERM)
            process.wait(timeout=60)

    def _command(self, one: DocCommand) -> Walked:
        rule = rule_for(one, self.own, self.everywhere)
        if self.only and not re.search(self.only, one.text) and not rule.skip:
            left = Walked(command=one.title, state="not walked", note=LATER)
            return self.before.get(one.title, left)
        if rule.skip:
            return Walked(command=one.title, state="not walked", note=rule.skip)
        text = rule.run or self._with_stand_ins(one.text)
        if one.text.startswith("export "):
            self.exports.append(text)
        if rule.background:
            self.running.append(self._start(text, one.language, subprocess.DEVNULL))
            return Walked(command=one.title, state="ok", note="in the background")
        limit_s = max(self.limit_s, rule.limit_s)
        code, seconds, said = self._run(text, one.language, limit_s)
        if code is None:
            note = f"{SLOW} {limit_s:g} s"
            return Walked(command=one.title, state="not walked", seconds=seconds, note=note)
        as_this = "" if text == one.text else rule.note or f"as: {' '.join(text.split())}"
        if code != rule.exit:
            note = f"exit code {code}: {said[-MOST_CHARACTERS:]}"
            return Walked(command=one.title, state="failed", seconds=seconds, note=note)
        return Walked(command=one.title, state="ok", seconds=seconds, note=as_this)

    def _with_stand_ins(self, text: str) -> str:
        for pattern, stand_in in (self.own.instead | self.everywhere.instead).items():
            text = re.sub(pattern, stand_in, text)
        return text

    def _start(self, text: str, language: str, out: int) -> subprocess.Popen[bytes]:
        shell = "\n".join([*self.exports, text])
        words = ["bash", "-e", "-c", shell] if language == "bash" else [sys.executable, "-c", text]
        return subprocess.Popen(
            words,
            cwd=self.folder,
            env=environment(self.folder.parent / "bin"),
            stdin=subprocess.DEVNULL,
            stdout=out,
            stderr=subprocess.STDOUT if out != subprocess.DEVNULL else out,
            start_new_session=True,
        )

    def _run(self, text: str, language: str, limit_s: float) -> tuple[int | None, float, str]:
        """Exit code (None: it took too long), seconds, and what was printed."""
        started = time.monotonic()
        process = self._start(text, language, subprocess.PIPE)
        try:
            said, _ = process.communicate(timeout=limit_s)
        except subprocess.TimeoutExpired:
            _kill(process)
            return None, time.monotonic() - started, ""
        except KeyboardInterrupt:
            for one in (process, *self.running):
                _kill(one)
            raise
        words = " ".join(said.decode(errors="replace").split())
        return process.returncode, time.monotonic() - started, words


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End a process with all that it started."""
    os.killpg(process.pid, signal.SIGKILL)
    process.communicate()


def environment(tools: Path) -> dict[str, str]:
    """This checkout's commands first on the PATH."""
    paths = f"{ROOT}{os.pathsep}{ROOT / 'tools/virtual_gpu'}"
    path = f"{tools}{os.pathsep}{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "PYTHONPATH": paths, "ROOT": str(ROOT), "COLUMNS": "100"}


def walk_docs_rules() -> dict[str, PageRules]:
    """The rules by page, and those of all pages."""
    return TypeAdapter(dict[str, PageRules]).validate_python(tomllib.loads(RULES.read_text()))


def rule_for(one: DocCommand, *rules: PageRules) -> Rule:
    """The first rule that matches a command, else one that changes nothing."""
    every = (rule for some in rules for rule in some.rule)
    return next((rule for rule in every if re.search(rule.match, one.text)), Rule(match=""))


def walk(page: str, given: argparse.Namespace) -> None:
    """Walk one page; what came of each command is written at once."""
    rules = walk_docs_rules()
    found = list(commands(page, (ROOT / page).read_text()))
    with tempfile.TemporaryDirectory() as name:
        tools, folder = Path(name, "bin"), Path(name, "work")
        for each in (tools, folder):
            each.mkdir()
        for tool, more in TOOLS.items():
            (tools / tool).write_text(f'#!/bin/sh\nexec "{sys.executable}" {more} "$@"\n')
            (tools / tool).chmod(0o755)
        for shared in ("transcripts/examples", "transcripts/recorded.tar.xz"):
            (folder / shared).parent.mkdir(exist_ok=True)
            (folder / shared).symlink_to(ROOT / shared)
        own, everywhere = rules.get(page, PageRules()), rules["everywhere"]
        old = walked_before(given.out).get(page, EMPTY)
        before = {one.command: one for one in old.commands}
        today = datetime.date.today().isoformat()
        date = old.date if given.only and old.commands else today
        one = Walk(folder, everywhere, own, given.limit_s, given.only, before)
        for walked in one.page(found):
            print(f"{page}: {_line(walked)}", flush=True)
            before[walked.command] = walked
            now = WalkedPage(page=page, date=date, commands=tuple(before.values()))
            _write(given.out, {page: now})


def walked_before(path: Path) -> dict[str, WalkedPage]:
    """What a file of `document` has, by page."""
    found: dict[str, WalkedPage] = {}
    for page, date, lines in PAGE.findall(path.read_text() if path.exists() else ""):
        parts = [LINE.fullmatch(line) for line in lines.splitlines()]
        some = tuple(
            Walked(command=one[3], state=one[1], seconds=float(one[2] or 0), note=one[4] or "")
            for one in parts
            if one is not None
        )
        found[page] = WalkedPage(page=page, date=date, commands=some)
    return found


def as_it_is_now(found: Sequence[DocCommand], old: WalkedPage, *rules: PageRules) -> WalkedPage:
    """A page's commands with what came of them; those that the walk did not have, or in other
    words, are named as such."""
    tried = (one for one in old.commands if one.state != "not walked" or one.note.startswith(SLOW))
    known, now = {one.command: one for one in tried}, list[Walked]()
    for one in found:
        skip = rule_for(one, *rules).skip
        new = Walked(command=one.title, state="not walked", note=skip or LATER)
        now.append(new if skip else known.get(one.title, new))
    return WalkedPage(page=old.page, date=old.date, commands=tuple(now))


def document(walked: Sequence[WalkedPage]) -> str:
    """docs/walked.md."""
    every = [one for page in walked for one in page.commands]
    counts = ", ".join(
        f"{sum(one.state == state for one in every)} {state}"
        for state in ("ok", "failed", "not walked")
    )
    parts = [
        "# Commands of the documentation, run",
        f"Written by `python -m lab.walk_docs`, which takes the commands from the pages: {counts}."
        f" They ran on {os.cpu_count()} cores, without a GPU or a key. Brackets say what ran"
        " instead, or why a command was not run; lab/walk_docs.toml has these rules.",
    ]
    for page in walked:
        lines = [_line(one) for one in page.commands]
        parts += [f"## {page.page}, {page.date}", "\n".join(["```text", *lines, "```"])]
    return "\n\n".join(parts) + "\n"


def _line(one: Walked) -> str:
    state = f"{one.state} {one.seconds:.0f} s" if one.state == "ok" and one.seconds else one.state
    return f"{state:12} {one.command}" + (f"   [{one.note}]" if one.note else "")


def _walk(given: argparse.Namespace) -> None:
    known = pages()
    if unknown := [page for page in given.pages if page not in known]:
        raise BadInput(f"{unknown[0]} is not a page: use one of {', '.join(known)}")
    if not shutil.which("bash"):
        raise BadInput("bash is missing")
    for page in given.pages or known:
        if not list(commands(page, (ROOT / page).read_text())):
            continue
        walk(page, given)


def _refresh(given: argparse.Namespace) -> None:
    _write(given.out, {})


def _write(out: Path, new: dict[str, WalkedPage]) -> None:
    walked, rules, every = walked_before(out) | new, walk_docs_rules(), list[WalkedPage]()
    for page in pages():
        found = list(commands(page, (ROOT / page).read_text()))
        old = walked.get(page) or WalkedPage(page=page, date="not walked", commands=())
        own = rules.get(page, PageRules())
        every.append(as_it_is_now(found, old, own, rules["everywhere"]))
    out.write_text(document([page for page in every if page.commands]))


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m lab.walk_docs")
    ways = parser.add_subparsers(required=True)
    walking = ways.add_parser("walk")
    walking.add_argument("pages", nargs="*", metavar="PAGE")
    walking.add_argument("--only", default="", metavar="REGEX")
    walking.add_argument("--limit-s", type=float, default=LIMIT_S)
    walking.set_defaults(do=_walk)
    refreshing = ways.add_parser("refresh")
    refreshing.set_defaults(do=_refresh)
    for way in (walking, refreshing):
        way.add_argument("-o", dest="out", type=Path, default=OUT)
    given = parser.parse_args()
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    given.do(given)


if __name__ == "__main__":
    main()
