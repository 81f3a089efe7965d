"""Only who has the token reads, only by this address, only what lies in the folder."""

from __future__ import annotations

import http.client
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from threading import Thread

import pytest

from astra_chat.report.turns import texts_of
from astra_chat.transcript.reader import read
from astra_chat.transcript.writer import Writer
from astra_chat.viewer.runs import Runs
from astra_chat.viewer.server import HOST, Following, Server, Viewer
from astra_vgpu.ground.errors import BadInput
from tests.chat_samples import write_transcript

Get = Callable[..., tuple[int, str, dict[str, str]]]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    write_transcript(tmp_path / "runs" / "a" / "transcript.jsonl")
    (tmp_path / "secret.jsonl").write_bytes(
        (tmp_path / "runs" / "a" / "transcript.jsonl").read_bytes()
    )
    return tmp_path / "runs"


@pytest.fixture
def server(root: Path) -> Iterator[Server]:
    with Server(Viewer(root)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def get(server: Server) -> Get:
    def ask(path: str, method: str = "GET", host: str = "") -> tuple[int, str, dict[str, str]]:
        """`path` is what follows the token, or all of it if it begins with a slash."""
        whole = path if path.startswith("/") else f"/{server.token}/{path}"
        connection = http.client.HTTPConnection(HOST, server.server_port, timeout=60)
        headers = {"Host": host or f"{HOST}:{server.server_port}"}
        connection.request(method, whole, headers=headers)
        answer = connection.getresponse()
        body = answer.read().decode()
        connection.close()
        return answer.status, body, dict(answer.getheaders())

    return ask


def key(root: Path) -> str:
    return Runs(root).list()[0].key


@pytest.mark.second_tier
def test_pages(get: Get, root: Path, server: Server) -> None:
    status, body, headers = get("")
    assert status == 200 and "doubled" in body and key(root) in body
    assert headers["Cache-Control"] == "no-store" and headers["Referrer-Policy"] == "no-referrer"
    status, body, _ = get(f"run/{key(root)}/")
    assert status == 200 and "Speed over rounds" in body
    assert "Astra: 1 run" in get(f"compare?run={key(root)}")[1]
    assert get("", "HEAD")[:2] == (200, "")
    assert server.server_address[0] == "127.0.0.1"


@pytest.mark.parametrize(
    "path",
    [
        "/",
        "/wrong/",
        "/{token}",
        "/{token}x/",
        "nothing",
        "run/",
        "run/0000/",
        "run/../secret.jsonl/",
        "run/%2e%2e/",
        "../secret.jsonl",
        "run/{key}/since/x",
        "run/{key}/since/-1",
        "run/{key}/../../",
        "compare",
        "compare?run=/etc/passwd",
    ],
)
def test_what_is_not_there(get: Get, root: Path, server: Server, path: str) -> None:
    status, body, _ = get(path.format(token=server.token, key=key(root)))
    assert status == 404 and "doubled" not in body and server.token not in body


@pytest.mark.parametrize("host", ["evil.example", "evil.example:{port}", "localhost.evil:{port}"])
def test_another_name_for_loopback(get: Get, server: Server, host: str) -> None:
    assert get("", host=host.format(port=server.server_port))[0] == 404


@pytest.mark.parametrize("method", ["POST", "PUT", "DELETE", "OPTIONS"])
def test_nothing_is_written(get: Get, method: str) -> None:
    assert get("", method)[0] == 501


def test_a_run_under_way(get: Get, root: Path) -> None:
    path = root / "a" / "transcript.jsonl"
    records = read(path).records
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(lines[:8]))
    begun = read(path)
    writer = Writer.go_on(begun)
    seen = begun.records[-1].turn
    status, body, _ = get(f"run/{key(root)}/")
    assert status == 200 and f'data-seen="{seen}"' in body and "running" in body
    writer.append(*(record.event for record in records[8:]))
    news = json.loads(get(f"run/{key(root)}/since/{seen}")[1])
    assert news["turns"] == 8 and not news["over"]
    assert news["html"].count("<details") == 8 - seen
    writer.close()
    assert json.loads(get(f"run/{key(root)}/since/8")[1])["over"]


def test_a_port_that_is_taken(server: Server, root: Path) -> None:
    with pytest.raises(BadInput, match="cannot serve"):
        Server(Viewer(root), server.server_port)


@pytest.fixture
def lines(tmp_path: Path) -> list[bytes]:
    return write_transcript(tmp_path / "whole.jsonl").read_bytes().splitlines(keepends=True)


def test_line_by_line(tmp_path: Path, lines: list[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "grows.jsonl"
    path.write_bytes(b"".join(lines[:4]))
    following = Following(path)
    shown = [turn.title for turn in following.news(0).turns]
    monkeypatch.setattr("astra_chat.viewer.server.read", None)  # the whole file, once more
    for line in lines[4:]:
        with path.open("ab") as file:
            file.write(line[:10])
            file.flush()
            assert following.news(len(shown)).turns == [], "half a line"
            file.write(line[10:])
        shown += [turn.title for turn in following.news(len(shown)).turns]
    monkeypatch.undo()
    whole = read(tmp_path / "whole.jsonl").records
    assert shown == [turn.title for turn in texts_of(whole).turns]
    news = following.news(0)
    assert news.transcript.records == whole and news.transcript.size == path.stat().st_size
    assert not following.running()


def test_another_file_in_its_place(tmp_path: Path, lines: list[bytes]) -> None:
    path = tmp_path / "grows.jsonl"
    path.write_bytes(b"".join(lines))
    following = Following(path)
    every = len(following.news(0).turns)
    path.unlink()
    path.write_bytes(b"".join(lines[:5]))
    assert 0 < len(following.news(0).turns) < every
    with path.open("ab") as file:
        file.write(lines[-1])  # lines between are missing
    with pytest.raises(BadInput, match="lines are missing"):
        following.news(0)
    path.unlink()
    with pytest.raises(BadInput, match="cannot read"):
        following.news(0)
