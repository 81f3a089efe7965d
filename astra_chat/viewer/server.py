"""Serves the viewer's pages on loopback: read-only, behind a random token, from one folder.

Addresses name runs by keys of what lies in the folder, never by paths. A request that is not by
this address, port and token gets nothing, so other pages in the browser cannot read a run.

Of a transcript that grows, what was read is kept, and only new lines are read.
"""

from __future__ import annotations

import hmac
import json
import secrets
from collections.abc import Sequence
from dataclasses import dataclass
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import parse_qs, urlsplit

from markupsafe import Markup
from pydantic import ValidationError

from astra_chat.report.html import report, script_hash, style_sheet, templates
from astra_chat.report.turns import TurnText, TurnTexts
from astra_chat.transcript.events import Record
from astra_chat.transcript.lines import MAX_FILE_BYTES
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.under_way import locked_inodes, state_of_run
from astra_chat.viewer.runs import RunRow, Runs
from astra_vgpu.ground.errors import AstraError, BadInput

TEMPLATES = Path(__file__).parent / "templates"


def index_page(root: Path, rows: Sequence[RunRow]) -> str:
    """The runs in a folder."""
    return _render("index.html", root=str(root), **_index(rows))


def index_rows(rows: Sequence[RunRow]) -> str:
    """The part of the index that changes."""
    return _render("rows.html", **_index(rows))


def live_page(row: RunRow, news: News) -> str:
    """A run under way: what came so far, and new turns as they come."""
    return _render("live.html", row=row, **_news(news))


def live_turns(news: News) -> str:
    """The turns of `news` alone."""
    return _render("live_turns.html", **_news(news))


def run_report(paths: Sequence[Path]) -> str:
    """The report of one run or of several. Raises BadInput."""
    if not paths:
        raise BadInput("no run was chosen")
    return report([read(path) for path in paths])


def _index(rows: Sequence[RunRow]) -> dict[str, Any]:
    folders: dict[str, list[RunRow]] = {}
    for row in rows:
        folders.setdefault(row.folder, []).append(row)
    waiting = [row for row in rows if row.state in ("running", "waiting")]
    return {"folders": folders, "waiting": waiting, "count": len(rows)}


def _news(news: News) -> dict[str, Any]:
    return {"turns": news.turns, "after": news.after}


def _render(name: str, **values: Any) -> str:
    environment = templates(TEMPLATES)
    script = (TEMPLATES / "live.js").read_text(encoding="utf-8")
    return environment.get_template(name).render(
        style=style_sheet(), script=Markup(script), script_hash=script_hash(script), **values
    )


HOST = "127.0.0.1"
MOST_COMPARED = 50
HEADERS = {
    "Cache-Control": "no-store",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}
HTML, JSON = "text/html; charset=utf-8", "application/json"


class Viewer:
    """The pages by address. Raises BadInput for what is not there."""

    def __init__(self, root: Path) -> None:
        self.root, self._runs = root.resolve(), Runs(root.resolve())
        self._following: dict[str, Following] = {}
        self._lock = Lock()
        """matplotlib draws one plot at a time."""

    def page(self, path: str, query: dict[str, list[str]]) -> tuple[str, str] | None:
        """Type and text at a path behind the token; None where nothing is."""
        match path.split("/"):
            case [""]:
                return HTML, index_page(self.root, self._rows())
            case ["rows"]:
                return HTML, index_rows(self._rows())
            case ["compare"]:
                return HTML, self._report(query.get("run", [])[:MOST_COMPARED])
            case ["run", key, ""]:
                return HTML, self._run(key)
            case ["run", key, "report"]:
                return HTML, self._report([key])
            case ["run", key, "since", seen] if seen.isdecimal() and len(seen) < 10:
                return JSON, self._since(key, int(seen))
            case _:
                return None

    def _rows(self) -> list[RunRow]:
        with self._lock:
            return self._runs.list()

    def _row(self, key: str) -> RunRow:
        row = next((row for row in self._rows() if row.key == key), None)
        if row is None:
            raise BadInput("no such run")
        return row

    def _run(self, key: str) -> str:
        """The report, or the turns of a run under way."""
        row = self._row(key)
        if row.state != "running":
            return self._report([key])
        news = self._follow(key).news(0)
        seen = news.transcript.records[-1].turn
        return live_page(row.model_copy(update={"turns": seen}), news)

    def _since(self, key: str, seen: int) -> str:
        """New turns of a run under way. Nothing but its new lines is read."""
        following = self._follow(key)
        running = following.running()
        news = following.news(seen)
        state, words = state_of_run(news.transcript.records, running)
        return json.dumps(
            {
                "turns": news.transcript.records[-1].turn,
                "html": live_turns(news),
                "state": f"{state}: {words}",
                "over": not running,
            }
        )

    def _report(self, keys: list[str]) -> str:
        found = [self._runs.path_of(key) for key in keys]
        with self._lock:
            return run_report([path for path in found if path is not None])

    def _follow(self, key: str) -> Following:
        with self._lock:
            if key not in self._following:
                path = self._runs.path_of(key)
                if path is None:
                    raise BadInput("no such run")
                self._following[key] = Following(path)
            return self._following[key]


class Server(ThreadingHTTPServer):
    """A viewer behind a token."""

    daemon_threads = True

    def __init__(self, viewer: Viewer, port: int = 0) -> None:
        """`port` 0 takes a free one. Raises BadInput where it is taken."""
        self.viewer, self.token = viewer, secrets.token_urlsafe(24)
        try:
            super().__init__((HOST, port), _Handler)
        except OSError as error:
            raise BadInput(f"cannot serve on {HOST}:{port}: {error.strerror}") from None

    @property
    def url(self) -> str:
        return f"http://{HOST}:{self.server_port}/{self.token}/"


class _Handler(BaseHTTPRequestHandler):
    server: Server
    timeout = 30
    """Seconds; a client that says nothing holds a thread no longer."""
    server_version, sys_version = "astra-chat", ""

    def do_GET(self) -> None:
        status, kind, text = self._answer()
        body = text.encode("utf-8", "backslashreplace")
        self.send_response(status)
        for name, value in HEADERS.items():
            self.send_header(name, value)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    do_HEAD = do_GET

    def _answer(self) -> tuple[HTTPStatus, str, str]:
        address = urlsplit(self.path)
        token, slash, path = address.path.removeprefix("/").partition("/")
        # A page elsewhere may make a browser ask under a name of its own that leads to loopback.
        own = self.headers.get("Host") in (f"{HOST}:{self.server.server_port}",)
        allowed = hmac.compare_digest(token.encode(), self.server.token.encode())
        if not (own and allowed and slash):
            return HTTPStatus.NOT_FOUND, "text/plain", "nothing here\n"
        try:
            found = self.server.viewer.page(path, parse_qs(address.query))
        except AstraError as error:
            return HTTPStatus.NOT_FOUND, "text/plain; charset=utf-8", f"{error}\n"
        if found is None:
            return HTTPStatus.NOT_FOUND, "text/plain", "nothing here\n"
        return HTTPStatus.OK, *found

    def log_message(self, format: str, *args: object) -> None:
        """Nothing: a line for each request would hide what the command says."""


@dataclass(frozen=True)
class News:
    """What a reader has not seen."""

    transcript: Transcript
    turns: list[TurnText]
    after: list[str]
    """What was recorded since the last turn."""


class Following:
    """One transcript. May be asked by several threads."""

    def __init__(self, path: Path) -> None:
        self._path, self._lock = path, Lock()
        self._records: list[Record] = []
        self._texts = TurnTexts()
        self._size = 0
        self._file: tuple[int, int] | None = None

    def running(self) -> bool:
        """Whether a run writes it."""
        try:
            return self._path.stat().st_ino in locked_inodes()
        except OSError:
            return False

    def news(self, seen: int) -> News:
        """Turns after the first `seen`. Raises BadInput where it is no transcript any more."""
        with self._lock:
            self._update()
            whole = Transcript(self._path, tuple(self._records), False, self._size)
            return News(whole, self._texts.turns[seen:], self._texts.after)

    def _update(self) -> None:
        try:
            stat = self._path.stat()
        except OSError as error:
            raise BadInput(f"cannot read {self._path}: {error.strerror}") from None
        same = self._file == (stat.st_dev, stat.st_ino) and stat.st_size >= self._size
        if not same or not self._read_new_lines(stat.st_size):
            self._read_all()
            self._file = (stat.st_dev, stat.st_ino)

    def _read_all(self) -> None:
        found = read(self._path)
        self._records, self._texts, self._size = [], TurnTexts(), 0
        self._add(found.records, found.size)

    def _read_new_lines(self, size: int) -> bool:
        """Whether they continue what was read; an incomplete last line is left for later."""
        if size > MAX_FILE_BYTES:
            return False
        with self._path.open("rb") as file:
            file.seek(self._size)
            whole, newline, _ = file.read(size - self._size).rpartition(b"\n")
        if not newline:
            return True
        try:
            found = [Record.model_validate_json(line) for line in whole.split(b"\n")]
        except ValidationError:
            return False
        last = self._records[-1].seq
        if [one.seq for one in found] != list(range(last + 1, last + 1 + len(found))):
            return False
        self._add(found, self._size + len(whole) + 1)
        return True

    def _add(self, records: tuple[Record, ...] | list[Record], size: int) -> None:
        for record in records:
            self._texts.add(record)
        self._records += records
        self._size = size
