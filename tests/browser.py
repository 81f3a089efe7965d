"""Chromium for tests of pages, where this machine has one (marker `browser`)."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytest.importorskip("playwright.sync_api", reason="no playwright: extra `browser`")

CHROMIUM = next(
    filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None
)
needs_browser = [
    pytest.mark.browser,
    pytest.mark.second_tier,
    pytest.mark.skipif(CHROMIUM is None, reason="no Chromium here"),
]


@dataclass
class Seen:
    """A page, what it wrote to the console, and what it asked for beside itself."""

    page: Page
    console: list[str] = field(default_factory=list)
    requests: list[str] = field(default_factory=list)


def browsers() -> Iterator[Browser]:
    """One browser, for a fixture. Without its own sandbox, which does not run as root."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield browser
        browser.close()


def opened(browser: Browser, url: str, width: int = 1200, **options: object) -> Seen:
    """The page at an address, looked at in a window of `width` pixels."""
    page = browser.new_page(viewport={"width": width, "height": 900}, **options)  # type: ignore[arg-type]
    seen = Seen(page)
    page.on("console", lambda message: seen.console.append(message.text))
    page.on("pageerror", lambda error: seen.console.append(str(error)))
    page.on("request", lambda request: seen.requests.append(request.url))
    page.goto(url)
    return seen
