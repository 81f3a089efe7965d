"""Warp-wide instructions: shfl, vote, match, redux, elect, bar.warp.sync."""

from __future__ import annotations

from astra_vgpu.c_engine.code import Code, family
from astra_vgpu.c_engine.memory import site_of


def _call(
    code: Code, function: str, first: str, inputs: list[str], outputs: list[int], place: str = ""
) -> None:
    """`place`: of the instruction, as C text, where its number is not enough."""
    names = ", ".join([*inputs, *(f"X{number}" for number in outputs)])
    how = f"{first}, " if first else ""
    code.warp(f"{function}(w, {place or code.place}, {how}{code.active()}, {names});")


@family("shfl")
def shuffle(code: Code) -> None:
    """d|p: the value of another lane, and whether that lane was in range."""
    code.option("sync")
    how = code.option("idx", "up", "down", "bfly")
    code.type()
    inputs = [code.array(code.read(index, "b32")) for index in (1, 2, 3, 4)]
    value, in_range = code.results(), code.results()
    site = site_of(code, 4, writes=False, ordered=0)
    _call(code, "shuffle", f"SHFL_{how.upper()}", inputs, [value, in_range], site)
    first, second = code.pair(0)
    code.put(first, "b32", f"x{value}")
    code.put(second, "pred", f"x{in_range}")


@family("vote")
def vote(code: Code) -> None:
    code.option("sync")
    how = code.option("ballot", "all", "any", "uni")
    result_type = code.type()
    inputs = [code.array(code.read(1, "pred")), code.array(code.read(2, "u32"))]
    result = code.results()
    _call(code, "vote", f"VOTE_{how.upper()}", inputs, [result])
    code.write(0, result_type, f"x{result}")


@family("match")
def match(code: Code) -> None:
    """any: the lanes with the same value. all: all of them and true if the value is one."""
    how = code.option("any", "all")
    code.option("sync")
    type_name = code.type()
    inputs = [code.array(code.read(1, type_name), "uint64_t"), code.array(code.read(2, "u32"))]
    value, same = code.results(), code.results()
    _call(code, "match", str(int(how == "all")), inputs, [value, same])
    first, second = code.pair(0)
    code.put(first, "b32", f"x{value}")
    code.put(second, "pred", f"x{same}")


@family("redux")
def redux(code: Code) -> None:
    code.option("sync")
    how = code.option("add", "min", "max", "and", "or", "xor").upper()
    sign = code.type()[0].upper()
    inputs = [code.array(code.read(1, "b32")), code.array(code.read(2, "u32"))]
    result = code.results()
    if how in ("MIN", "MAX"):
        how = f"{how}_{'S' if sign == 'S' else 'U'}"
    _call(code, "redux", f"REDUX_{how}", inputs, [result])
    code.write(0, "b32", f"x{result}")


@family("activemask")
def activemask(code: Code) -> None:
    code.type()
    result = code.results()
    code.warp(f"{{ const uint32_t who = {code.active()}; EACH X{result}[l] = who; }}")
    code.write(0, "b32", f"x{result}")


@family("elect")
def elect(code: Code) -> None:
    """One lane of the members: the lowest."""
    code.option("sync")
    inputs = [code.array(code.read(1, "u32"))]
    lane, chosen = code.results(), code.results()
    _call(code, "elect", "", inputs, [lane, chosen])
    first, second = code.pair(0)
    code.put(first, "b32", f"x{lane}")
    code.put(second, "pred", f"x{chosen}")


@family("bar")
@family("barrier")
def warp_barrier(code: Code) -> None:
    """bar.warp.sync only: barriers of the block end basic blocks."""
    code.option("warp")
    code.option("sync")
    named = code.array(code.read(0, "u32"))
    code.warp(f"members(w, {code.place}, {code.active()}, {named});")
