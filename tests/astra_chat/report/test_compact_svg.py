"""A compact plot has what matplotlib's file shows, at the same places."""

from __future__ import annotations

import io
import re
from xml.etree import ElementTree

import matplotlib as mpl
from matplotlib.figure import Figure

from astra_chat.report.figures import compact


def matplotlib_svg() -> str:
    """Bars, marks with an interval and one that only a mouse finds, and hatches."""
    figure = Figure(figsize=(3, 2))
    axes = figure.add_subplot()
    axes.barh([0, 1], [2, 3], hatch="//", facecolor="none", edgecolor="#123456")
    axes.errorbar([1], [1], xerr=[[0.5], [0.5]], marker="o", capsize=3)
    axes.plot([1], [1], "o", alpha=0, gid="hint1")
    axes.text(1, 1, "a <b> & c")
    out = io.StringIO()
    with mpl.rc_context({"svg.fonttype": "none"}):
        figure.savefig(out, format="svg")
    return out.getvalue()


def test_nothing_that_is_seen_is_lost() -> None:
    whole = matplotlib_svg()
    found = compact(whole, "p", label="a plot", hints={"hint1": "<hint>"})
    assert len(found) < len(whole) / 2
    root = ElementTree.fromstring(found)
    assert root.get("aria-label") == "a plot" and root.get("viewBox") == "0 0 216 144"
    assert "<title>&lt;hint&gt;</title>" in found and "a &lt;b&gt; &amp; c" in found
    (hinted,) = (group for group in root.iter("g") if group.find("title") is not None)
    assert hinted.find("use") is not None, "what a mouse finds may be unseen"
    before = ElementTree.fromstring(whole)
    texts = [one.text for one in before.iter("{http://www.w3.org/2000/svg}text")]
    assert {*texts} == {one.text for one in root.iter("text")}
    uses = re.findall(r'<use [^>]*\bx="([\d.]+)"', whole)
    assert {f"{float(x):.1f}" for x in uses} >= {
        f"{float(one.get('x', '')):.1f}" for one in root.iter("use")
    }
    assert found.count("<pattern") == whole.count("<pattern") > 0


def test_outlines_are_the_same_to_a_tenth() -> None:
    """Every corner of a path is where it was."""
    head = '<svg viewBox="0 0 9 9"><path style="stroke: #000" d='
    bar = f'{head}"M 1.04 2 L 3.26 2 L 3.26 5 z"/></svg>'
    assert 'd="M1 2H3.3V5z"' in compact(bar, "p", label="", hints={})
    curve = f'{head}"M 0 0 C 1.5 2 3 4.25 5 5.96"/></svg>'
    assert 'd="M0 0C1.5 2 3 4.2 5 6"' in compact(curve, "p", label="", hints={})
