"""The recorder and the stubs, compiled with the real compiler."""

from __future__ import annotations

import ctypes
from dataclasses import replace
from pathlib import Path

import pytest

from astra_chat.tools.plan.programs import ensure_recorder, ensure_stub, stub_source
from astra_chat.tools.task.folder import find_task
from astra_chat.tools.task.launcher import call_values
from astra_chat.tools.types import Case
from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.ground.toolkit import find_toolkit

TASK = find_task("fused_add_rmsnorm")
CASE = Case(dims={"tokens": 5, "h": 7}, dtype="float32", pad=3)


def test_a_stub_passes_every_value_on_as_the_contract_says() -> None:
    """A launcher of the contract, in Python, sees what ctypes would have passed."""
    stub = ctypes.CDLL(str(ensure_stub(TASK, find_toolkit())))
    values = call_values(TASK, CASE, [0x1000, 0x2000, 2**63 + 8], 0x7777)
    kinds = [type(value) for value in values]
    seen: list[object] = []
    launcher = ctypes.CFUNCTYPE(ctypes.c_int, *kinds)(lambda *got: seen.extend(got) or 42)
    words = [int.from_bytes(bytes(value), "little") for value in values]
    assert stub.astra_call(launcher, (ctypes.c_uint64 * len(words))(*words)) == 42
    assert seen == [value.value for value in values] and 7 in seen


@pytest.mark.second_tier
def test_programs_are_compiled_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path))
    toolkit = find_toolkit()
    recorder, stub = ensure_recorder(toolkit), ensure_stub(TASK, toolkit)
    dates = [path.stat().st_mtime_ns for path in (recorder, stub)]
    assert (ensure_recorder(toolkit), ensure_stub(TASK, toolkit)) == (recorder, stub)
    assert [path.stat().st_mtime_ns for path in (recorder, stub)] == dates
    other = find_task("silu_and_mul")
    assert stub_source(other) != stub_source(TASK) and ensure_stub(other, toolkit) != stub


def test_without_a_compiler_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("ASTRA_CACHE", str(tmp_path))
    toolkit = find_toolkit()
    with pytest.raises(MissingDependency, match="apt-get install"):
        ensure_recorder(replace(toolkit, cxx=tmp_path / "no-g++"))
    with pytest.raises(MissingDependency, match="cannot build the plan recorder"):
        ensure_recorder(replace(toolkit, include_dir=tmp_path))
