"""The gallery has every picture that its command makes, with the command that it shows."""

from __future__ import annotations

import lzma
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest

from lab.gallery import PAGES, REPORT, SCREENS, Screen, picture, written_report
from tests.sources import ROOT

FOLDER = ROOT / "docs/gallery"
PAGE = (FOLDER / "README.md").read_text()
MOST_BYTES = 160_000


@pytest.mark.parametrize("screen", SCREENS, ids=lambda screen: screen.name)
def test_a_screen_names_its_command(screen: Screen) -> None:
    name, command = screen.name, screen.command
    root = ET.parse(FOLDER / f"{name}.svg").getroot()
    assert [one.text for one in root if one.tag.endswith("title")] == [f"$ {command}"]
    assert f"({name}.svg)" in PAGE and command in PAGE
    assert len([one for one in root if one.tag.endswith("text")]) >= 3


def test_the_report_s_command_writes_what_the_pictures_show(tmp_path: Path) -> None:
    assert REPORT in PAGE
    page = written_report(tmp_path / "report.html").read_text()
    assert "default-src 'none'" in page
    assert all(f'id="{place.removeprefix("#")}"' in page for *_, place in PAGES.values())
    packed = lzma.decompress((FOLDER / "report.html.xz").read_bytes()).decode()
    assert "(report.html.xz)" in PAGE and packed.startswith(page[:15])
    assert re.findall(r"<h2[^>]*>", packed) == re.findall(r"<h2[^>]*>", page)
    pictures = set(re.findall(r"\(([\w-]+\.webp)\)", PAGE))
    assert pictures == {f"{name}.webp" for name in PAGES}
    assert all((FOLDER / name).read_bytes()[8:12] == b"WEBP" for name in pictures)


def test_it_is_light() -> None:
    assert sum(path.stat().st_size for path in FOLDER.iterdir()) < MOST_BYTES


def test_colours_go_on_in_the_next_line_and_text_stays_text() -> None:
    svg = picture("a <b>", ["\x1b[32mgood & green", "still\x1b[0m not"], 80)
    root = ET.fromstring(svg)
    marked = [one.text for one in root.iter() if one.tag.endswith("tspan")]
    assert marked == ["good & green", "still"] and "fill:#69c98a" in svg
