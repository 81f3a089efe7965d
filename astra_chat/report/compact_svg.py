"""matplotlib's SVG as a page needs it: what is drawn, in a third of the bytes.

Left out are what nobody sees, names that nothing refers to, and what the page's style sheet says
of every plot. What has a clip or a style in common is in one group. Texts come last: nothing hides
them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from itertools import groupby
from xml.etree import ElementTree
from xml.etree.ElementTree import Element

DIGITS, MARK_DIGITS = 1, 2
"""Digits behind the point of a place, and of the outline of a mark, which is a few units wide."""
PAGE_STYLE = {
    "text": {
        "fill": "var(--muted)",
        "font-size": "7.5px",
        "font-family": "",
        "text-anchor": "start",
    },
    "": {"fill": "none", "stroke-linejoin": "", "stroke-linecap": ""},
}
"""What templates/style.css says of a plot's texts and of all else; empty: of any value."""
NUMBER = re.compile(r"-?\d*\.?\d+(?:e[-+]?\d+)?")
NAMED = re.compile(r"(?<=^#).+|(?<=url\(#)[^)]+")
"""The name in `#name` and in `url(#name)`."""


def compact(svg: str, name: str, *, label: str, hints: Mapping[str, str]) -> str:
    """Returns the plot for a page. `hints`: what to show where the mouse is over the group of an
    id. All names in it begin with `name`."""
    root = ElementTree.fromstring(svg)
    for each in root.iter():
        each.tag = each.tag.rpartition("}")[2]
        each.attrib = {key.rpartition("}")[2]: value for key, value in each.attrib.items()}
        each.text = each.text if (each.text or "").strip() else None
        each.tail = None
    marks = {each.get("id", ""): each for defs in root.iter("defs") for each in defs}
    drawn = list(_drawn(root, None, hints, marks))
    texts = sorted((one for one in drawn if one.tag == "text"), key=_style)
    found = Element("svg", {"class": "plot", "role": "img", "aria-label": label})
    found.set("viewBox", root.get("viewBox", ""))
    found.extend(_grouped([one for one in drawn if one.tag != "text"], ("clip-path", "style")))
    found.extend(_grouped(texts, ("style",)))
    _add_marks(found, marks, name)
    return ElementTree.tostring(found, encoding="unicode").replace(" />", "/>")


def _drawn(
    parent: Element, clip: str | None, hints: Mapping[str, str], marks: Mapping[str, Element]
) -> Iterator[Element]:
    """What is drawn in an element, without the groups around it."""
    for each in parent:
        inside = each.get("clip-path", clip)
        if each.tag == "g":
            found = list(_drawn(each, inside, hints, marks))
            hint = hints.get(each.get("id", ""))
            yield from found if hint is None or not found else [_hinted(hint, found)]
        elif each.tag not in ("defs", "metadata") and (one := _clean(each, marks)) is not None:
            if inside and one.tag != "text":
                one.set("clip-path", inside)
            yield one


def _hinted(hint: str, marks: list[Element]) -> Element:
    """Marks with a hint: in a group with their common clip, and their style where it is common."""
    group = Element("g")
    title = ElementTree.SubElement(group, "title")
    title.text = hint
    for key in ("clip-path", "style"):
        if len({one.get(key) for one in marks}) == 1 and (value := marks[0].get(key)):
            group.set(key, value)
            for one in marks:
                del one.attrib[key]
    group.extend(marks)
    return group


def _clean(element: Element, marks: Mapping[str, Element]) -> Element | None:
    """Returns a drawn element with what it needs; None where it has neither fill nor stroke."""
    own = _styles(element)
    mark = marks.get(element.get("href", "#")[1:])
    seen = own | (_styles(mark) if mark is not None else {})
    if element.tag != "text" and {seen.get("fill", "none"), seen.get("stroke", "none")} == {"none"}:
        return None
    page = PAGE_STYLE.get(element.tag, PAGE_STYLE[""])
    for key in [k for k in own if page.get(k) in ("", own[k])]:
        del own[key]
    for key in _styles(mark) if mark is not None else ():
        own.pop(key, None)
    found = Element(element.tag, {k: v for k, v in element.attrib.items() if k != "id"})
    found.attrib.pop("style", None)
    found.text = element.text
    if own:
        found.set("style", ";".join(f"{key}:{value}" for key, value in own.items()))
    if found.get("transform", "").startswith("rotate(-0 "):
        del found.attrib["transform"]
    return _rounded(found, DIGITS)


def _styles(element: Element) -> dict[str, str]:
    """Each property of an element's style."""
    parts = (one.partition(":") for one in element.get("style", "").split(";") if one.strip())
    return {key.strip(): value.strip() for key, _, value in parts}


def _style(element: Element) -> str:
    return element.get("style", "")


def _rounded(element: Element, digits: int) -> Element:
    for key in ("x", "y", "width", "height", "transform"):
        if key in element.attrib:
            element.set(key, NUMBER.sub(lambda n: _number(n[0], digits), element.attrib[key]))
    if "d" in element.attrib:
        element.set("d", _outline(element.attrib["d"], digits))
    return element


def _number(text: str, digits: int) -> str:
    return f"{round(float(text), digits) + 0:g}"


def _outline(path: str, digits: int) -> str:
    """Returns a path with rounded places; lines along an axis by its one number."""
    found, at = [], ["", ""]
    for command, numbers in re.findall(r"([A-Za-z])([^A-Za-z]*)", path):
        places = [_number(n, digits) for n in NUMBER.findall(numbers)]
        x_same, y_same = (old == new for old, new in zip(at, places[-2:] or at, strict=True))
        if command == "L" and (x_same or y_same):
            if x_same and y_same:
                continue
            found.append(f"V{places[1]}" if x_same else f"H{places[0]}")
        else:
            found.append(command + " ".join(places))
        at = places[-2:] or at
    return "".join(found)


def _grouped(elements: list[Element], keys: tuple[str, ...]) -> Iterator[Element]:
    """The elements, neighbours with the same value of a key in one group that has it."""
    if not keys:
        yield from elements
        return
    for value, same in groupby(elements, lambda one: one.get(keys[0])):
        members = list(same)
        if value is None or len(members) == 1:
            yield from _grouped(members, keys[1:])
            continue
        group = Element("g", {keys[0]: value})
        for one in members:
            del one.attrib[keys[0]]
        group.extend(_grouped(members, keys[1:]))
        yield group


def _add_marks(found: Element, marks: Mapping[str, Element], name: str) -> None:
    """Add the outlines, clips and patterns that are referred to, under names of this plot."""
    new: dict[str, str] = {}
    for each in found.iter():
        for key in ("href", "clip-path", "style"):
            if (value := each.get(key)) is not None:
                value = NAMED.sub(lambda n: new.setdefault(n[0], f"{name}-{len(new)}"), value)
                each.set(key, value)
    defs = ElementTree.SubElement(found, "defs")
    for old, short in new.items():
        mark = marks[old]
        for each in mark.iter():
            each.attrib.pop("id", None)
            _rounded(each, MARK_DIGITS)
        mark.set("id", short)
        defs.append(mark)
