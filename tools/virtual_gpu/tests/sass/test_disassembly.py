"""nvdisasm's text read: control bits, lines, labels; and what is no such text."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_vgpu.ground.errors import MissingDependency
from astra_vgpu.runtime.compile import Compiled
from astra_vgpu.sass import disassembly as module
from astra_vgpu.sass.disassembly import (
    Disassembly,
    disassemble,
    parse_kernel,
)

SECTION = """
        .type           k,@function
k:
	//## File ".nv_debug_ptx_txt", line 26
        /*0010*/                   S2R R0, SR_TID.X ;                /* 0x0000000000007919 */
                                                                     /* 0x000e220000002100 */
.L_x_1:
	//## File ".nv_debug_ptx_txt", line 27
        /*0040*/              @!P0 LDG.E R2, desc[UR4][R2.64] ;      /* 0x000003ff0000780c */
                                                                     /* 0x001ea8000c1e1900 */
        /*0050*/                   BRX R4 -0x1b0  (*"BRANCH_TARGETS .L_x_1,.L_x_2"*); /* 0x47 */
"""  # noqa: W191, E101, RUF100


def test_instructions_with_control_bits_lines_and_labels() -> None:
    kernel = parse_kernel(SECTION)
    first, second = kernel.instructions
    assert (first.opcode, first.operands, first.guard, first.line) == (
        "S2R",
        "R0, SR_TID.X",
        "",
        26,
    )
    assert (first.stall, first.result_board, first.operand_board, first.waits) == (1, 0, 7, ())
    assert (second.opcode, second.name, second.guard) == ("LDG.E", "LDG", "@!P0")
    assert (second.line, second.stall, second.result_board) == (27, 4, 2)
    assert second.waits == (0,)
    assert kernel.labels == {"k": 0, ".L_x_1": 1}


def test_half_an_instruction_is_refused() -> None:
    with pytest.raises(ValueError, match="half an instruction: S2R"):
        parse_kernel("\n".join(line for line in SECTION.splitlines() if "0x000e22" not in line))


def test_kernels_are_found_by_name(known: Compiled) -> None:
    text = Disassembly(known.ptx.with_suffix(module.SUFFIX))
    for name in known.resources:
        kernel = text.kernel(name)
        assert any(i.name == "EXIT" for i in kernel.instructions)
        assert any(i.line for i in kernel.instructions)
    with pytest.raises(KeyError):
        text.kernel("none")


def test_too_large_a_kernel_is_refused(known: Compiled, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_INSTRUCTIONS", 10)
    text = Disassembly(known.ptx.with_suffix(module.SUFFIX))
    with pytest.raises(ValueError, match="more than 10 instructions"):
        text.kernel(next(iter(known.resources)))


def test_no_text_without_a_tool_or_a_cubin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cubin, text = tmp_path / "k.cubin", tmp_path / "k.sass"
    cubin.write_bytes(b"no cubin")
    assert not disassemble(cubin, text) and not text.exists()
    assert not disassemble(tmp_path / "none.cubin", text)

    def lacking(name: str) -> Path:
        raise MissingDependency(name)

    monkeypatch.setattr(module, "find_tool", lacking)
    assert not disassemble(cubin, text) and not text.exists()


def test_a_full_disk_leaves_no_half_text(known: Compiled, tmp_path: Path) -> None:
    cubin = next(known.ptx.parent.glob("*.cubin"))
    full = tmp_path / "full.sass"
    full.symlink_to("/dev/full")
    assert not disassemble(cubin, full) and not full.is_symlink()
