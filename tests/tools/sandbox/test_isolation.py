"""Which isolation is in force, and what happens where there is none."""

from __future__ import annotations

import pytest

from astra_chat.tools.sandbox import isolation as level
from astra_chat.tools.sandbox import landlock, seccomp
from astra_vgpu.ground.errors import MissingDependency


def test_the_level_is_the_strongest_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level, "bubblewrap", lambda: None)
    monkeypatch.setattr(seccomp, "available", lambda: True)
    monkeypatch.setattr(landlock, "abi", lambda: 4)
    assert level.isolation.__wrapped__() == "landlock"
    monkeypatch.setattr(landlock, "abi", lambda: 0)
    assert level.isolation.__wrapped__() == "seccomp"
    monkeypatch.setattr(seccomp, "available", lambda: False)
    assert level.isolation.__wrapped__() == "none"


@pytest.mark.parametrize("weak", ["seccomp", "none"])
def test_a_weak_level_asks_for_trust(
    monkeypatch: pytest.MonkeyPatch, weak: level.Isolation
) -> None:
    monkeypatch.setattr(level, "isolation", lambda: weak)
    with pytest.raises(MissingDependency, match="--trust"):
        level.require_isolation()


def test_a_strong_one_does_not(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(level, "isolation", lambda: "landlock")
    level.require_isolation()
