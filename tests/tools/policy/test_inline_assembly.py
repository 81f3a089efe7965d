"""What the text of an asm statement may hold; test_source_guard.py has where it may stand."""

from __future__ import annotations

import pytest

from astra_chat.tools.cpp_tokens import Code, tokens
from astra_chat.tools.policy.source_guard import assembly


def found(text: str) -> list[str]:
    return [finding.what for finding in assembly(Code(tokens(text)))]


@pytest.mark.parametrize(
    "register",
    ["clock64", "globaltimer_lo", "smid", "nsmid", "warpid", "nwarpid", "gridid", "envreg2", "pm3"],
)
def test_registers_that_say_when_and_where_a_kernel_runs(register: str) -> None:
    (what,) = found(f'asm volatile("mov.u32 %0, %%{register};" : "=r"(v));')
    assert f"%{register}: " in what and "only on its arguments" in what
    assert found(f'asm volatile("mov.u32 %0, %%{register}s;" : "=r"(v));') == []
    built = Code(tokens(f'asm volatile("mov.u32 %0, %%{register};" : "=r"(v));'))
    assert list(assembly(built, registers=False)) == []


@pytest.mark.parametrize("register", ["laneid", "lanemask_lt", "ctaid.x", "cluster_ctarank"])
def test_registers_that_say_where_a_thread_is(register: str) -> None:
    assert found(f'asm volatile("mov.u32 %0, %%{register};" : "=r"(v));') == []


def test_text_from_elsewhere_is_refused() -> None:
    (what,) = found('asm volatile("%1 mov.u32 %0, %%laneid;" : "=r"(v) : "C"(text));')
    assert 'constraint "C"' in what
    assert found('asm volatile("CALL.me %0;" : "=r"(v) : "l"(C), "r"(C) : "memory");') == []
