"""Ends of basic blocks (branch, barrier, exit), fences, traps and assertions."""

from __future__ import annotations

from collections.abc import Sequence

from astra_vgpu.c_engine.code import Code, Unit, family
from astra_vgpu.c_engine.mbarriers import translate_poll
from astra_vgpu.c_engine.steps import Step
from astra_vgpu.isa.mbarriers import is_poll
from astra_vgpu.lowering.control_flow import (
    Branch,
    GridPoll,
    Jump,
    Suspend,
    Switch,
    Terminator,
    is_reducing_barrier,
)
from astra_vgpu.ptx.syntax import Group, Register, Symbol


def translate_end(
    unit: Unit, end: Terminator, block: int, rejoined: frozenset[int]
) -> Sequence[Step]:
    """block: its number; rejoined: basic blocks through which all lanes of this one come later."""
    match end:
        case Jump(target=target):
            return [Step(f"send(w, {target}, m);", warp=True)]
        case Branch(guard=guard, taken=taken, other=other):
            number = unit.number(guard.register)
            if guard.negated:
                taken, other = other, taken
            predicate = unit.variables.new("uint32_t")
            return [
                Step(f"x{number}", predicate),
                Step(f"FORK(X{predicate}, {taken}, {other})", warp=True),
            ]
        case Switch(instruction=instruction, targets=targets):
            return _switch(Code(unit, instruction), targets)
        case Suspend(instruction=instruction, target=target) if is_poll(instruction):
            code = Code(unit, instruction)
            translate_poll(code, target)
            return code.steps
        case Suspend(instruction=instruction, target=target):
            return _barrier(Code(unit, instruction), target, block, rejoined)
        case GridPoll(instruction=instruction, target=target):
            return [Step(f"pause_at(w, {target}, {unit.instruction(instruction)}, m);", warp=True)]
        case _:
            return [Step("w->live &= ~m;", warp=True)]


def _switch(code: Code, targets: Sequence[int]) -> Sequence[Step]:
    """Lane by lane to targets[index]."""
    code.option("idx")
    code.ignore("uni")
    code.done()
    index = code.array(code.read(0, "u32"))
    sends = [
        f"{{ uint32_t to = 0; EACH to |= (uint32_t)({index}[l] == {place}) << l; "
        f"send(w, {target}, to & m); rest &= ~to; }}"
        for place, target in enumerate(targets)
    ]
    code.warp(
        f"{{ uint32_t rest = m; {' '.join(sends)} "
        f"if (rest) stop(w, BAD_BRANCH, {code.place}, rest); }}"
    )
    return code.steps


def _barrier(code: Code, target: int, block: int, rejoined: frozenset[int]) -> Sequence[Step]:
    """bar.sync a{, b}, bar.arrive a, b and bar.red.op.type d, a{, b}, c."""
    code.flag("cta")
    aligned = code.flag("aligned") or code.instruction.family == "bar"
    how, votes, result, first, last = "", "m", "0", 0, len(code.operands)
    waits = True
    if is_reducing_barrier(code.instruction):
        code.option("red")
        how = code.option("popc", "and", "or")
        code.type()
        first, last = 1, len(code.operands) - 1
        votes = f"(m & mask_of({code.array(code.read(last, 'pred'))}))"
        target_register = code.operand(0)
        if not isinstance(target_register, Register) or target_register.bits not in (1, 32):
            raise code.refuse("this destination on the C engine")
        result = f"R->x{code.unit.number(target_register)}"
    else:
        waits = code.option("sync", "arrive") == "sync"
    code.done()
    number = code.array(code.read(first, "u32"))
    threads = code.array(code.read(first + 1, "u32")) if last - first > 1 else "0"
    place = len(code.unit.barriers)
    kind = f"'{how[0]}'" if how else "0"
    words = [
        f"{sum(1 << n % 64 for n in rejoined if n // 64 == word):#x}u"
        for word in range(max(rejoined, default=0) // 64 + 1)
    ]
    bits = f"(const uint64_t[PROGRAM_WORDS]){{{', '.join(words)}}}"
    code.unit.barriers.append(
        f"{{{code.place}, {target}, {block}, {int(aligned)}, {kind}, {int(waits)}, {bits}}}"
    )
    code.warp(f"arrive(w, &barriers[{place}], m, {number}, {threads}, {votes}, {result});")
    return code.steps


@family("membar")
def membar(code: Code) -> None:
    _fence(code, code.option("cta", "gl", "gpu", "sys"))


@family("fence")
def fence(code: Code) -> None:
    if code.flag("proxy"):
        code.option("async")
        if code.optional("global", "shared::cta", "shared::cluster") != "global":
            code.warp(f"fence_before_copies(w, {code.active()});")
        return
    if code.flag("mbarrier_init"):
        code.option("release")
        code.option("cluster")
        return
    code.ignore("sc", "acq_rel", "acquire", "release")
    _fence(code, code.option("cta", "cluster", "gpu", "sys"))


def _fence(code: Code, scope: str) -> None:
    code.warp(f"shared_fence(w, {code.active()});")
    if scope not in ("cta", "cluster"):
        code.warp(f"block_fence(w, {code.active()});")


@family("griddepcontrol")
def grid_dependency(code: Code) -> None:
    """Launches run one after the other: nothing to wait for, but who waited is noted."""
    if code.option("wait", "launch_dependents") == "wait":
        code.warp(f"w->waited |= {code.active()};")


@family("nanosleep")
def nanosleep(code: Code) -> None:
    """Nothing but time passes."""
    code.type()
    asked_ns = code.array(code.read(0, "u32"))
    code.warp(f"nano_sleep(w, {code.active()}, {asked_ns});")


@family("pmevent")
def pmevent(code: Code) -> None:
    code.ignore("mask")


@family("trap")
@family("brkpt")
def trap(code: Code) -> None:
    active = code.active()
    code.warp(f"if ({active}) stop(w, TRAP, {code.place}, {active});")


@family("__assertfail")
def assertion(code: Code) -> None:
    """Parameters: message, file, line, function, character size."""
    arguments = code.operand(1)
    places = [
        str(code.unit.places[item.name].offset)
        for item in (arguments.items if isinstance(arguments, Group) else ())
        if isinstance(item, Symbol)
    ]
    if len(places) != 5:
        raise code.refuse("this form of assertion")
    slots = ", ".join(places[:4])
    code.warp(f"failed_assertion(w, {code.place}, m, (const uint32_t[]){{{slots}}});")
