"""The parser on what nvcc and inline assembly write."""

from __future__ import annotations

import pytest

from astra_vgpu.lowering.inline import inline
from astra_vgpu.ptx.parser import Module, PtxSyntaxError, parse
from astra_vgpu.ptx.syntax import (
    Address,
    Immediate,
    Instruction,
    Label,
    Negated,
    Pair,
    Register,
    Relocation,
    Special,
    Symbol,
    Vector,
)

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"


def module(text: str) -> Module:
    return parse(HEAD + text)


def body(text: str) -> list[Instruction]:
    kernel = module(f".visible .entry k()\n{{ {text} }}").kernels["k"]
    return [s for s in kernel.body if isinstance(s, Instruction)]


@pytest.mark.parametrize("text", ["", "int main() {}", "\x7fELF", "{}", "# PTX", HEAD + "hello"])
def test_other_texts_are_refused(text: str) -> None:
    with pytest.raises(PtxSyntaxError, match="line"):
        parse(text)


def test_a_text_cut_off_is_refused() -> None:
    with pytest.raises(PtxSyntaxError, match="ends in the middle"):
        module(".visible .entry k(.param .u64 a)\n{ .reg .b32 %r<2>; mov.u32 %r1, 3;")


def test_parameters_lie_at_their_alignment() -> None:
    kernel = module(
        ".visible .entry k(.param .u32 a, .param .u64 .ptr .global .align 16 b, .param .u8 c,"
        " .param .align 8 .b8 d[20], .param .f32 e)\n"
        ".maxntid 128, 2, 1\n.minnctapersm 2\n{ ret; }"
    ).kernels["k"]
    assert [(p.offset, p.size) for p in kernel.params] == [
        (0, 4),
        (8, 8),
        (16, 1),
        (24, 20),
        (44, 4),
    ]
    assert kernel.param_bytes == 48 and kernel.max_threads == 256
    assert kernel.directives["minnctapersm"] == (2,)


def test_without_launch_bounds_and_parameters() -> None:
    kernel = module(".visible .entry k()\n{ ret; }").kernels["k"]
    assert kernel.max_threads is None and kernel.param_bytes == 0


def test_variables_and_their_initial_values() -> None:
    parsed = module(
        ".global .align 4 .b8 text[5] = {104, 105, 0};\n"
        ".const .align 8 .f64 half = 0d3FE0000000000000;\n"
        ".visible .global .align 4 .u32 grid[2][2] = {{1, 2}, {3, -1}};\n"
        ".global .u64 table[3] = {text, generic(grid)+8, 7};\n"
        ".extern .shared .align 16 .b8 dynamic[];\n.global .align 4 .b8 zeros[12];\n"
    )
    assert parsed.globals["text"].initial == b"hi\0\0\0"
    assert parsed.globals["half"].space == "const"
    assert parsed.globals["half"].initial == bytes.fromhex("000000000000e03f")
    assert parsed.globals["grid"].initial == b"".join(
        (x % 2**32).to_bytes(4, "little") for x in (1, 2, 3, -1)
    )
    table = parsed.globals["table"]
    assert table.relocations == (Relocation(0, "text", 0), Relocation(8, "grid", 8))
    assert table.initial[16:] == (7).to_bytes(8, "little")
    assert parsed.globals["zeros"].initial == b"" and parsed.globals["zeros"].size == 12
    assert parsed.shared["dynamic"].external and parsed.shared["dynamic"].align == 16


def test_operands() -> None:
    first, second, third, fourth = body(
        ".reg .pred p, q; .reg .b32 %r<9>; .reg .b64 %rd<3>;\n"
        "@!p setp.lt.and.s32 p|q, %r1, -5, !q;\n"
        "ld.global.nc.L1::no_allocate.L2::128B.v2.b32 {%r1, _}, [%rd1+-16];\n"
        "mov.b32 %r2, 0x3fb8aa3bU; fma.rn.f32 %r3, %r2, 0fBF800000, %tid.x;"
    )
    assert first.guard is not None and first.guard.negated
    pair, left, constant, negated = first.operands
    assert isinstance(pair, Pair) and isinstance(negated, Negated)
    assert left == Register("%r1", "b32") and constant == Immediate(-5)
    assert second.modifiers == ("global", "nc", "L1::no_allocate", "L2::128B", "v2", "b32")
    vector, address = second.operands
    assert isinstance(vector, Vector) and len(vector.items) == 2
    assert address == Address(Register("%rd1", "b64"), -16)
    assert third.operands[1] == Immediate(0x3FB8AA3B)
    assert fourth.operands[2:] == (Immediate(0xBF800000, "f32"), Special("%tid.x"))


def test_scopes_declare_names_again() -> None:
    """Inline assembly: one register of a name in each scope, and labels that repeat."""
    text = "{ .reg.b16 h; .reg .pred p; L: mov.b16 h, %h1; setp.eq.b16 p, h, 1; @p bra L; }"
    first, _, jump, second, *_ = body(f".reg .b16 %h<2>, h; {text} {text} mov.b16 h, 3;")
    names = {i.operands[0].name for i in (first, second) if isinstance(i.operands[0], Register)}
    assert len(names) == 2
    kernel = module(f".entry k()\n{{ .reg .b16 %h<2>; {text} {text} }}").kernels["k"]
    labels = [s.name for s in kernel.body if isinstance(s, Label)]
    jumps = [s.operands[0] for s in kernel.body if isinstance(s, Instruction) and s.family == "bra"]
    assert labels == [j.name for j in jumps if isinstance(j, Symbol)] and len(set(labels)) == 2
    assert isinstance(jump.operands[0], Symbol)


def test_lines_and_sources() -> None:
    parsed = module(
        ".visible .entry k()\n{\n.reg .b32 %r<3>;\n.loc 1 13 0\nmov.u32 %r1, 1;\n.loc 1 16 5\n"
        ".loc 2 608 5, function_name $L__info0, inlined_at 1 16 5\nmov.u32 %r1, 2;\n"
        ".loc 2 585 1, function_name $L__info1+4, inlined_at 2 608 5\nmov.u32 %r1, 3;\n}\n"
        '.file 1 "/somewhere/silu.cu"\n.file 2 "/toolkit/include/cuda_bf16.hpp"\n'
        ".section .debug_str\n{\n$L__info0:\n.b8 95,90,0\n$L__info1:\n.b8 0\n}\n"
    )
    instructions = [s for s in parsed.kernels["k"].body if isinstance(s, Instruction)]
    assert [i.source for i in instructions] == ["silu.cu:13", "silu.cu:16", "silu.cu:16"]
    assert [i.line for i in instructions] == [8, 11, 13]
    assert instructions[0].text == "mov.u32 %r1, 1"


def test_lines_of_own_headers_come_with_the_calls_that_led_there() -> None:
    parsed = module(
        ".func f()\n{\n.reg .b32 %r<3>;\n.loc 3 9 1\nmov.u32 %r1, 1;\n.loc 4 5 1\n"
        "mov.u32 %r1, 2;\nret;\n}\n.visible .entry k()\n{\n.reg .b32 %r<3>;\n.loc 1 16 5\n"
        ".loc 2 7 5, function_name $L, inlined_at 1 16 5\n"
        ".loc 4 3 5, function_name $L, inlined_at 2 7 5\nmov.u32 %r1, 2;\n"
        ".loc 3 8 1, function_name $L, inlined_at 2 7 5\nmov.u32 %r1, 3;\n"
        ".loc 1 17 1\n{ call.uni f; }\n}\n"
        '.file 1 "/src/silu.cu"\n.file 2 "/src/a/row.cuh"\n.file 3 "/src/b/row.cuh"\n'
        '.file 4 "/usr/local/cuda/bin/../targets/x86_64-linux/include/cuda_fp16.hpp"\n'
        ".section .debug_str\n{\n$L:\n.b8 0\n}\n"
    )
    kernel = parsed.kernels["k"]
    lines = [s.source for s in inline(parsed, kernel).body if isinstance(s, Instruction)]
    outer = "a/row.cuh:7, inlined at silu.cu:16"
    # Lines of the toolkit's functions are those of the call.
    assert lines[:4] == [outer, f"b/row.cuh:8, inlined at {outer}", "b/row.cuh:9", "silu.cu:17"]
    own = [s.own_lines for s in inline(parsed, kernel).body if isinstance(s, Instruction)]
    assert own[:4] == lines[:4], "of headers a message names the calls too"
    assert parsed.sources == {
        "silu.cu": "/src/silu.cu",
        "a/row.cuh": "/src/a/row.cuh",
        "b/row.cuh": "/src/b/row.cuh",
    }


def test_unknown_opcodes_pass() -> None:
    (instruction,) = body(".reg .b32 %r<2>; frobnicate.sync.f77 %r1, {%r1, 2};")
    assert instruction.family == "frobnicate" and instruction.modifiers == ("sync", "f77")


def test_shared_bytes_count_what_calls_use() -> None:
    parsed = module(
        ".shared .align 4 .b8 outer[20];\n.shared .align 8 .b8 unused[400];\n"
        ".extern .shared .align 16 .b8 dynamic[];\n"
        ".func f()\n{ .reg .b32 %r<2>; ld.shared.u32 %r1, [outer+4]; ret; }\n"
        ".visible .entry k()\n{ .shared .align 8 .b8 inner[12]; .reg .b32 %r<2>;\n"
        "mov.u32 %r1, inner; mov.u32 %r1, dynamic; { call.uni f; } ret; }\n"
        ".visible .entry other()\n{ ret; }\n"
    )
    assert parsed.kernels["k"].shared == 32 and parsed.kernels["other"].shared == 0


def test_declared_functions_keep_their_definition() -> None:
    parsed = module(
        ".extern .func vprintf (.param .b64 a, .param .b64 b);\n"
        ".func (.param .b32 r) twice (.param .b32 x);\n"
        ".func (.param .b32 r) twice (.param .b32 x)\n{ ret; }\n"
    )
    assert parsed.functions["twice"].defined and not parsed.functions["vprintf"].defined
    assert [p.name for p in parsed.functions["twice"].returns] == ["r"]
