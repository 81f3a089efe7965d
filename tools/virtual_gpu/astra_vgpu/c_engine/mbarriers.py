"""mbarrier instructions, and arrivals that cp.async brings to mbarriers."""

from __future__ import annotations

from astra_vgpu.c_engine.code import Code, constant, family
from astra_vgpu.c_engine.memory import address, site_of
from astra_vgpu.isa.mbarriers import MOST, SIZE, Form, form_of
from astra_vgpu.numpy_engine.address_spaces import WINDOWS
from astra_vgpu.ptx.syntax import Operand, Register

_ACTIONS = {"init": "INIT", "inval": "INVAL", "expect_tx": "EXPECT", "complete_tx": "COMPLETE"}


def place_of(code: Code, operand: Operand, generic: bool) -> str:
    """The offset in shared memory."""
    where = address(code, operand)
    if generic:
        where = f"{where} - {constant(WINDOWS['shared'], 64)}"
    return code.array(where, "uint64_t")


def site(code: Code) -> str:
    return site_of(code, SIZE, writes=True, ordered=True)


@family("mbarrier")
def mbarrier(code: Code) -> None:
    form = form_of(code)
    if form.action == "pending_count":
        code.write(0, "b32", f"(uint32_t)({code.read(1, 'b64')} & {MOST})")
        return
    at = 1 if form.action.startswith("arrive") else 0
    place = place_of(code, code.operand(at), form.space == "")
    counted = len(code.operands) > at + 1
    counts = code.array(code.read(at + 1, "u32")) if counted else "0"
    if at:
        _arrive(code, form, place, counts)
        return
    action = f"MBARRIER_{_ACTIONS[form.action]}"
    code.warp(f"mbarrier(w, {site(code)}, {action}, {place}, {code.active()}, {counts});")


def _arrive(code: Code, form: Form, place: str, counts: str) -> None:
    """The state before the arrival is its result."""
    flags = {
        "EXPECTS": form.expects,
        "NO_COMPLETE": form.no_complete,
        "DROP": form.action == "arrive_drop",
        "RELAXED": form.relaxed,
    }
    how = " | ".join(f"ARRIVE_{name}" for name, there in flags.items() if there) or "0"
    tokens, active = code.results("uint64_t"), code.active()
    code.warp(f"mbarrier_arrive(w, {site(code)}, {place}, {active}, {counts}, {how}, X{tokens});")
    code.write(0, "b64", f"x{tokens}")


def arrival_of_copies(code: Code) -> None:
    """cp.async.mbarrier.arrive: the thread's copies bring an arrival when they have arrived."""
    code.option("arrive")
    extra = not code.flag("noinc")
    generic = not code.optional("shared::cta", "shared")
    code.type()
    place = place_of(code, code.operand(0), generic)
    active = code.active()
    code.warp(f"mbarrier_arrive_copies(w, {site(code)}, {place}, {active}, {int(extra)});")


def translate_poll(code: Code, target: int) -> None:
    """mbarrier.test_wait and try_wait, which end basic blocks: lanes wait there."""
    form = form_of(code)
    code.done()
    place = place_of(code, code.operand(1), form.space == "")
    phase = code.array(code.read(2, "u32" if form.parity else "b64"), "uint64_t")
    register = code.operand(0)
    result = "R->none"
    if isinstance(register, Register):
        result = f"R->x{code.unit.number(register)}"
    number = len(code.unit.polls)
    code.unit.polls.append(f"{{{code.place}, {target}, {int(form.relaxed)}, {int(form.parity)}}}")
    code.warp(f"mbarrier_wait(w, &polls[{number}], {site(code)}, {place}, m, {phase}, {result});")
