"""What the engine lacks is refused at translation, by kernel, line and opcode."""

from __future__ import annotations

import pytest

from astra_vgpu import numpy_engine
from astra_vgpu.ptx.parser import parse
from astra_vgpu.types import PtxUnsupported

HEAD = ".version 9.0\n.target sm_90\n.address_size 64\n"
REGISTERS = (
    ".reg .pred %p<4>; .reg .b16 %h<9>; .reg .b32 %r<9>; .reg .f32 %f<9>; .reg .b64 %rd<9>; "
    ".reg .b128 %q<2>;\n"
)


def translate(instruction: str, directives: str = "") -> numpy_engine.Program:
    module = parse(
        f"{HEAD}.visible .entry k(.param .u64 a)\n{directives}\n"
        f"{{ {REGISTERS}{instruction}\nret; }}"
    )
    return numpy_engine.translate(module, "k")


@pytest.mark.parametrize(
    "instruction",
    [
        # Opcodes
        "frobnicate.b32 %r1, %r2;",
        "wgmma.fence.sync.aligned;",
        "mma.sync.aligned.m16n8k32.row.col.f32.bf16.bf16.f32 {%f0, %f1, %f2, %f3}, "
        "{%r0, %r1, %r2, %r3}, {%r4, %r5}, {%f0, %f1, %f2, %f3};",
        "ldmatrix.sync.aligned.m8n8.x3.shared.b16 {%r1}, [%rd1];",
        "mbarrier.init.shared.b32 [%rd1], %r1;",
        "mbarrier.test_wait.release.shared.b64 %p1, [%r1], %rd2;",
        "mbarrier.init.relaxed.shared.b64 [%r1], %r2;",
        "mbarrier.arrive.parity.shared.b64 %rd1, [%r1];",
        "mbarrier.try_wait.shared::cluster.b64 %p1, [%r1], %rd2;",
        "cp.async.bulk.global.shared.bulk_group [%rd1], [%r1], 16;",
        "mbarrier.frobnicate.shared.b64 %rd1, [%r1];",
        "cp.async.bulk.shared::cluster.global [%r1], [%rd1], 16, [%r2];",
        "cp.async.bulk.global.shared::cta.bulk_group.cp_mask [%rd1], [%r1], 16;",
        "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.noftz.f16 [%rd1], [%r1], 16;",
        "cp.async.bulk.commit_group.read;",
        "cp.async.mbarrier.arrive.b32 [%r1];",
        "barrier.cluster.arrive.acquire;",
        "bar.arrive 1;",
        # Modifiers that change the meaning
        "add.rn.ftz.f64 %rd1, %rd2, %rd3;",
        "min.xorsign.f32 %f1, %f2, %f3;",
        "min.xorsign.abs.f64 %rd1, %rd2, %rd3;",
        "prmt.b32.f4e %r1, %r2, %r3, %r4;",
        "fence.proxy.alias;",
        "fence.mbarrier_init.acquire.cluster;",
        "cvt.rs.bf16x2.f32 %r1, %f1, %f2, %r2;",
        "shfl.down.b32 %r1, %r2, 1, 31;",
        "cvt.s32.f32 %r1, %f1;",
        "red.async.relaxed.cluster.global.add.u32 [%rd1], %r1;",
        "setp.eq.f16.ftz %p1, %h1, %h2;",
        # Types and widths
        "add.u8 %h1, %h2, %h3;",
        "ld.global.b128 %q1, [%rd1];",
        "ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%rd1];",
        "add.u64 %rd1, %r1, %r2;",
        "selp.b32 %r1, %r2, %r3, %r4;",
        # Operands
        "mov.u32 %r1, %envreg3;",
        "mov.u32 %r1, %cluster_ctaid.x;",
        "mov.u64 %rd1, undeclared;",
        "ld.global.b32 %r1, [undeclared];",
        "min.f32 %f1, %f2, %f3, %f4;",
        "bfe.u32 %r1, %r2, 3;",
        "mov.f32 %f1, 0d3FE0000000000000;",
        "{ .param .b32 slot; mov.b64 %rd1, slot; }",
    ],
)
def test_refusals_name_kernel_line_and_opcode(instruction: str) -> None:
    with pytest.raises(PtxUnsupported) as caught:
        translate(instruction)
    assert caught.value.kernel == "k" and caught.value.line == 7
    expected = instruction.removeprefix("{ .param .b32 slot; ").split()[0].rstrip(";")
    assert caught.value.opcode == expected
    assert "is not supported" in str(caught.value) and "PTX line 7" in str(caught.value)


@pytest.mark.parametrize(
    "instruction",
    [
        "wgmma.fence.sync.aligned;",
        "cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes "
        "[%r1], [%rd1, {%r2}], [%r3];",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster "
        "[%r1], [%rd1], 16, [%r2], %h1;",
        "cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes "
        "[%r1], [%r2], 16, [%r3];",
        "mapa.shared::cluster.u32 %r1, %r2, 0;",
        "barrier.cluster.arrive.acquire;",
    ],
)
def test_what_needs_a_gpu_says_so(instruction: str) -> None:
    with pytest.raises(PtxUnsupported, match="needs a GPU"):
        translate(instruction)


def test_clusters_are_refused() -> None:
    with pytest.raises(PtxUnsupported, match="cluster"):
        translate("", ".reqnctapercluster 2, 1, 1")


def test_hints_are_no_modifiers() -> None:
    for hint in (
        "nc.L1::no_allocate.L2::128B",
        "ca",
        "cg",
        "cs",
        "lu",
        "cv",
        "volatile",
        "relaxed.gpu",
        "acquire.sys",
        "weak",
        "nc.L2::256B",
    ):
        translate(
            f"ld.global.{hint}.b32 %r1, [%rd1];"
            if hint != "volatile"
            else "ld.volatile.global.b32 %r1, [%rd1];"
        )


def test_a_program_is_made_once_and_counts_its_instructions() -> None:
    module = parse(f"{HEAD}.visible .entry k()\n{{ {REGISTERS} mov.u32 %r1, 1; bar.sync 0; ret; }}")
    program = numpy_engine.translate(module, "k")
    assert numpy_engine.translate(module, "k") is program
    assert numpy_engine.count(program) == 3
    with pytest.raises(KeyError):
        numpy_engine.translate(module, "other")


@pytest.mark.second_tier
def test_programs_go_with_their_module() -> None:
    import gc
    import weakref

    module = parse(f"{HEAD}.visible .entry k()\n{{ ret; }}")
    numpy_engine.translate(module, "k")
    gone = weakref.ref(module)
    del module
    gc.collect()
    assert gone() is None
