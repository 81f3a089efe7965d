"""The viewer in Chromium: a new turn shows by itself, and nothing leaves the page."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from threading import Thread
from typing import TYPE_CHECKING

import pytest

from astra_chat.transcript.reader import read
from astra_chat.transcript.writer import Writer
from astra_chat.viewer.server import Server, Viewer
from tests.browser import browsers, needs_browser, opened
from tests.chat_samples import write_transcript

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_browser


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from browsers()


def test_a_run_is_followed_to_its_end(browser: Browser, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "a" / "transcript.jsonl")
    records = read(path).records
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:8]))
    begun = read(path)
    writer, turns = Writer.go_on(begun), begun.records[-1].turn
    with Server(Viewer(tmp_path)) as server:
        thread = Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        try:
            seen = opened(browser, server.url, 390)
            page = seen.page
            page.locator("table a", has_text="doubled").click()
            assert page.locator("details.turn").count() == turns
            rest = [record.event for record in records[8:]]
            writer.append(*rest[:2])
            page.locator(f"#turn{turns + 1}").wait_for(state="attached", timeout=20_000)
            page.locator(f"#turn{turns + 1} summary").click()
            writer.append(*rest[2:])
            page.locator("#turn8").wait_for(state="attached", timeout=20_000)
            assert page.locator(f"#turn{turns + 1}").get_attribute("open") is not None
            writer.close()
            page.locator("text=Speed over rounds").first.wait_for(timeout=60_000)
            assert seen.console == []
            assert all(url.startswith(server.url) for url in seen.requests)
            assert page.evaluate("document.documentElement.scrollWidth") == 390
            page.close()
        finally:
            server.shutdown()
            thread.join()
