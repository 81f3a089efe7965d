"""cp.async: copies from global to shared memory that complete when their group is waited for."""

from __future__ import annotations

from astra_vgpu.c_engine.bulk import bulk
from astra_vgpu.c_engine.code import Code, family
from astra_vgpu.c_engine.mbarriers import arrival_of_copies
from astra_vgpu.c_engine.memory import address, site_of
from astra_vgpu.isa.bulk_copies import is_bulk
from astra_vgpu.ptx.syntax import Immediate


@family("cp")
def cp(code: Code) -> None:
    if is_bulk(code.instruction):
        bulk(code)
        return
    code.option("async")
    if code.flag("mbarrier"):
        arrival_of_copies(code)
    elif code.flag("commit_group"):
        code.warp(f"copies_commit(w, {code.active()});")
    elif code.flag("wait_group"):
        code.warp(f"copies_wait(w, {code.active()}, {_constant(code, 0)}, 0);")
    elif code.flag("wait_all"):
        code.warp(f"copies_wait(w, {code.active()}, 0, 1);")
    else:
        code.option("ca", "cg")
        code.option("shared", "shared::cta")
        code.option("global")
        code.ignore_hints()
        _copy(code, _constant(code, 2))


def _constant(code: Code, index: int) -> int:
    operand = code.operand(index)
    if not isinstance(operand, Immediate):
        raise code.refuse("a size that is not a constant on the C engine")
    return operand.value


def _copy(code: Code, size: int) -> None:
    target = code.array(address(code, code.operand(0)), "uint64_t")
    source = code.array(address(code, code.operand(1)), "uint64_t")
    wanted = code.array(code.read(3, "u32")) if len(code.operands) == 4 else "0"
    reads = site_of(code, size, writes=False, ordered=False)
    writes = site_of(code, size, writes=True, ordered=False)
    code.warp(f"copy_begin(w, {reads}, {writes}, {target}, {source}, {code.active()}, {wanted});")
