"""cp.async.bulk: bulk copies between global and shared memory."""

from __future__ import annotations

from astra_vgpu.c_engine.code import Code
from astra_vgpu.c_engine.mbarriers import place_of, site
from astra_vgpu.c_engine.memory import address, site_of
from astra_vgpu.isa.bulk_copies import ALIGNMENT, bulk_of
from astra_vgpu.ptx.syntax import Immediate


def bulk(code: Code) -> None:
    """cp.async.bulk and cp.reduce.async.bulk."""
    form = bulk_of(code)
    if form.action == "commit":
        code.warp(f"bulk_commit(w, {code.active()});")
    elif form.action == "wait":
        operand = code.operand(0)
        if not isinstance(operand, Immediate):
            raise code.refuse("a number of groups that is not a constant on the C engine")
        code.warp(f"bulk_wait(w, {code.active()}, {operand.value}, {int(form.reads_only)});")
    elif form.action != "prefetch":
        _copy(code, form.action == "to_shared", form.reduction, form.type)


def _copy(code: Code, to_shared: bool, reduction: str, type_name: str) -> None:
    to, from_ = (code.array(address(code, code.operand(n)), "uint64_t") for n in (0, 1))
    sizes = code.array(code.read(2, "u32"))
    active = code.active()
    reads = site_of(code, ALIGNMENT, writes=False, ordered=False)
    writes = site_of(code, ALIGNMENT, writes=True, ordered=False)
    if to_shared:
        place = place_of(code, code.operand(3), False)
        barrier = site(code)
        code.warp(
            f"bulk_to_shared(w, {reads}, {writes}, {barrier}, {to}, {from_}, {sizes}, {place}, "
            f"{active});"
        )
        return
    if reduction:
        code.unit.serial = True
    how, kind = (reduction or "copy").upper(), (type_name or "bits").upper()
    code.warp(
        f"bulk_to_global(w, {reads}, {writes}, {to}, {from_}, {sizes}, {active}, BULK_{how}, "
        f"BULK_{kind});"
    )
