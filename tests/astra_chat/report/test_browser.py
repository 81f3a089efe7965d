"""The report in Chromium: it opens without a message, asks for nothing, fits a phone, prints, and
its tables, links and buttons work."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from astra_chat.report.html import report
from astra_chat.transcript.reader import read
from tests.browser import browsers, needs_browser, opened
from tests.chat_samples import write_transcript

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = needs_browser
CONTRAST = """selector => [...document.querySelectorAll(selector)].slice(0, 400).map(element => {
  const light = color => {
    const parts = color.match(/[\\d.]+/g).slice(0, 3).map(part => Number(part) / 255);
    const [r, g, b] = parts.map(v => v <= .03928 ? v / 12.92 : ((v + .055) / 1.055) ** 2.4);
    return .2126 * r + .7152 * g + .0722 * b;
  };
  const ground = one => {
    const color = getComputedStyle(one).backgroundColor;
    return color === "rgba(0, 0, 0, 0)" ? ground(one.parentElement) : color;
  };
  const style = getComputedStyle(element);
  const lights = [light(element.tagName === "text" ? style.fill : style.color)];
  lights.push(light(ground(element)));
  const [low, high] = lights.sort((a, b) => a - b);
  return [(high + .05) / (low + .05), element.outerHTML.slice(0, 120)];
})"""
"""Contrast of elements' text to what it stands on."""
EXAMPLES = Path(__file__).parents[3] / "transcripts/examples"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    yield from browsers()


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> str:
    """A report of a measured and an estimated run about one task."""
    page = tmp_path_factory.mktemp("report") / "report.html"
    paths = EXAMPLES / "silu_and_mul-h200.jsonl.xz", EXAMPLES / "virtual/silu_and_mul.jsonl.xz"
    page.write_text(report([read(path) for path in paths]))
    return page.as_uri()


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1200])
@pytest.mark.parametrize("scripts", [True, False])
def test_it_opens(browser: Browser, url: str, theme: str, width: int, scripts: bool) -> None:
    seen = opened(browser, url, width, color_scheme=theme, java_script_enabled=scripts)
    assert seen.console == [] and seen.requests == [url]
    assert seen.page.locator("svg.plot").count() == 16
    if scripts:
        assert seen.page.evaluate("document.documentElement.scrollWidth") == width
    dark = seen.page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    assert dark == ("rgb(255, 255, 255)" if theme == "light" else "rgb(21, 24, 28)")
    seen.page.close()


def test_text_can_be_told_from_its_ground(browser: Browser, url: str) -> None:
    """WCAG 2, level AA: a contrast of 4.5, of the page's text and of plots', in both themes."""
    for theme in ("light", "dark"):
        seen = opened(browser, url, color_scheme=theme)
        found = seen.page.evaluate(
            CONTRAST, "p, a, td, th, h2, .badge, .verdict, .turn *, svg text"
        )
        assert len(found) > 300
        assert not [one for one in found if one[0] < 4.5]
        seen.page.close()


def test_tables_sort_and_filter(browser: Browser, url: str) -> None:
    page = opened(browser, url).page
    table = page.locator("#run1-cases table.sortable")
    rows = table.locator("tbody tr")
    everything = rows.count()
    table.locator("th button", has_text="ratio").click()
    ratios = [
        float(text.rstrip("x")) for text in table.locator("tbody td:nth-child(5)").all_inner_texts()
    ]
    assert ratios == sorted(ratios) and len(ratios) == everything
    table.locator("th button", has_text="ratio").click()
    assert table.locator("th[aria-sort=descending]").count() == 1
    page.locator("#run1-cases input.filter").fill("float16")
    shown = [row for row in rows.all() if row.is_visible()]
    assert 0 < len(shown) <= everything
    assert all("float16" in row.inner_text() for row in shown)
    page.close()


def test_links_open_what_they_lead_to(browser: Browser, url: str) -> None:
    page = opened(browser, url).page
    turn = page.locator("#run1-turn6")
    assert turn.get_attribute("open") is None
    page.locator("#run1-round1 a", has_text="turn 6").first.click()
    assert turn.get_attribute("open") is not None and turn.is_visible()
    turn.locator("a", has_text="source").click()
    assert "run1-source-" in page.url
    page.close()


def test_the_winner_is_copied_as_it_is(browser: Browser, url: str) -> None:
    context = browser.new_context(permissions=["clipboard-read", "clipboard-write"])
    page = context.new_page()
    page.goto(url)
    page.locator("#run1-winner button", has_text="copy").click()
    page.locator("#run1-winner button", has_text="copied").wait_for()
    transcript = read(EXAMPLES / "silu_and_mul-h200.jsonl.xz")
    sources = [r.event.text for r in transcript.records if r.event.kind == "blob"]
    copied = page.evaluate("navigator.clipboard.readText()")
    assert copied.rstrip() in [source.rstrip() for source in sources]
    context.close()


def test_it_prints(browser: Browser, url: str) -> None:
    page = opened(browser, url, color_scheme="dark").page
    document = page.pdf(format="A4")
    assert document.startswith(b"%PDF") and document.count(b"/Type /Page\n") > 5
    page.emulate_media(media="print")
    assert not page.locator("nav").is_visible()
    ground = page.locator("body").evaluate("e => getComputedStyle(e).backgroundColor")
    assert ground == "rgb(255, 255, 255)"
    page.close()


def test_hostile_text_stays_text(browser: Browser, tmp_path: Path) -> None:
    path = write_transcript(tmp_path / "t.jsonl")
    evil = (
        '<img src=x onerror=\\"document.title=1\\"><script>document.title=2</script></style></svg>'
    )
    text = path.read_text()
    for name in ('"title":"', '"words":"', '"why":"', '"change":"', '"anchor":"', '"metric":"'):
        text = text.replace(name, name + evil)
    path.write_text(text)
    page = tmp_path / "report.html"
    page.write_text(report([read(path)]))
    seen = opened(browser, page.as_uri())
    assert seen.console == [] and seen.requests == [page.as_uri()]
    assert seen.page.title() == "Astra: doubled" and seen.page.locator("img").count() == 0
    seen.page.close()
