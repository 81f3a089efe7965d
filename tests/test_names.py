"""A class has a name of its own: within a layer no two classes are called alike.

A name that begins with an underscore is seen in its own folder only, and counts there.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache

import pytest

from tests.sources import PACKAGE, sources

LAYERS = (PACKAGE, "tools/", "agents/", "astra_chat/", "lab/")
"""A file belongs to the first that its path begins with."""
STRUCT = "c_engine/layout.py lays it out for C, and it is written layout.NAME everywhere"
ENGINES = "the NumPy engine and the C engine mirror each other, and a file uses one of them"
ALLOWED = {
    PACKAGE: {
        "Buffer": STRUCT,
        "Code": f"an instruction while it is translated: {ENGINES}",
        "Counters": STRUCT,
        "Launch": STRUCT,
        "Print": STRUCT,
        "Program": f"a translated kernel: {ENGINES}",
        "UninitializedReads": STRUCT,
        "Unit": f"what the instructions of a kernel share: {ENGINES}",
    },
}
"""For each layer the names that several of its classes may have, and why."""


def layer_of(path: str) -> str:
    return next(layer for layer in LAYERS if path.startswith(layer))


def classes(path: str, source: str) -> Iterator[tuple[str, str, str]]:
    """Each class of a file: where it is seen, its name, and its file and line."""
    folder = path.rpartition("/")[0] + "/"
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.ClassDef):
            seen = folder if node.name.startswith("_") else layer_of(path)
            yield seen, node.name, f"{path}:{node.lineno}"


def shared_names(files: dict[str, str]) -> dict[tuple[str, str], list[str]]:
    """Where two classes or more are called alike: layer, or folder, and name; then their places."""
    found: dict[tuple[str, str], list[str]] = {}
    for path, source in files.items():
        for seen, name, place in classes(path, source):
            found.setdefault((seen, name), []).append(place)
    return {key: places for key, places in found.items() if len(places) > 1}


@cache
def shared_by_us() -> dict[tuple[str, str], list[str]]:
    return shared_names(sources(LAYERS[1:]))


@pytest.mark.second_tier
def test_no_two_classes_of_a_layer_are_called_alike() -> None:
    found = shared_by_us()
    offenders = {k: places for k, places in found.items() if k[1] not in ALLOWED.get(k[0], {})}
    assert not offenders, "say in the name what the class is"


def test_what_is_allowed_is_needed() -> None:
    allowed = {(layer, name) for layer, names in ALLOWED.items() for name in names}
    assert not allowed - shared_by_us().keys(), "take it out of ALLOWED"


def test_mirrored_names_are_pairs() -> None:
    """One class of each pair belongs to the C engine, and nothing else has its name."""
    found = shared_by_us()
    for name in ALLOWED[PACKAGE]:
        places = found[PACKAGE, name]
        assert len(places) == 2 and sum("/c_engine/" in place for place in places) == 1


@pytest.mark.parametrize(
    "text",
    [
        "class Fault: ...",
        "class Fault(Exception): ...",
        "class Fault(NamedTuple): ...",
        "class Fault(TypedDict): ...",
        "class Fault(Protocol): ...",
        "@dataclass\nclass Fault: ...",
        "class Outer:\n    class Fault: ...",
        "def made():\n    class Fault: ...",
    ],
)
def test_a_name_given_twice_is_found(text: str) -> None:
    files = {"agents/one.py": "class Fault: ...", "agents/roles/other.py": text}
    assert list(shared_names(files)) == [("agents/", "Fault")]


def test_layers_may_share_names_and_folders_private_ones() -> None:
    both = "class Fault: ...\nclass _Fault: ..."
    apart = {"tools/task/a.py": "class _Fault: ...", "tools/run/a.py": "class _Fault: ..."}
    assert not shared_names({"tools/a.py": both, f"{PACKAGE}a.py": both, "agents/a.py": both})
    assert not shared_names(apart)
    assert shared_names({"tools/a.py": both, "tools/b.py": both}).keys() == {
        ("tools/", "Fault"),
        ("tools/", "_Fault"),
    }
