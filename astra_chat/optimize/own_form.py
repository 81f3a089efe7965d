"""A winner as the user's file has to be then: the same functions for the same callers."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from astra_chat.tools.new import c_launcher, framework
from astra_chat.tools.new.c_launcher import STREAMS
from astra_chat.tools.new.source import Function, Piece, code, functions, pieces
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import parameters
from astra_chat.tools.types import DTYPE_CODES


@dataclass(frozen=True)
class OwnForm:
    """The file's new text, and what of the file's functions it lacks."""

    text: str
    lacking: tuple[str, ...]
    bridged: str = ""
    """The function that was put behind the winner and calls its launcher."""


def own_form(winner: str, original: str, task: Task) -> OwnForm:
    """The winner; of one that is the contract's launcher alone with the user's function, which
    calls it."""
    before = original.replace("\r\n", "\n")
    lacking = tuple(_lacking(before, winner))
    if len(lacking) == 1 and (task.binding is None or task.binding.function):
        with_function = bridged(winner, before, lacking[0], task)
        if with_function is not None:
            return OwnForm(with_function, (), lacking[0])
    return OwnForm(winner, lacking)


def _lacking(before: str, after: str) -> Iterator[str]:
    """What callers of the file use and no longer find: registered operators, else host functions
    that take tensors, else launchers in plain C++."""
    (old, plain), (new, now) = _functions(before), _functions(after)
    if exported := framework.exports(plain, old):
        wanted = [one.name for one in exported]
        there = {one.name for one in framework.exports(now, new)}
    else:
        host = [one.function for one in framework.host_functions(plain, old)]
        wanted = [one.name for one in host or c_launcher.launchers(old, pieces(before))]
        kinds = {_kind(one) for one in new if not one.on_device}
        there = {one.name for one in old if _kind(one) in kinds}
    yield from (name for name in wanted if name not in there)


def _kind(function: Function) -> tuple[str, ...]:
    """Its name and the types of its parameters."""
    return function.name, *c_launcher.types(c_launcher.signature(function.parameters))


def _functions(text: str) -> tuple[list[Function], list[Piece]]:
    plain = code(pieces(text))
    return functions(plain), plain


_SYSTEM = re.compile(r"^[ \t]*#[ \t]*include[ \t]*<[^>\n]+>", re.MULTILINE)


def bridged(winner: str, original: str, name: str, task: Task) -> str | None:
    """The winner with the function of the original file behind it; None where its parameters do not
    give what the winner's launcher takes."""
    plain = code(pieces(original))
    function = next(one for one in functions(plain) if one.name == name)
    returns, passed = function.returns.split()[-1], _passed(function, task)
    if passed is None or function.template or returns not in ("void", "cudaError_t"):
        return None
    head = original[function.start : plain[function.body].start].strip()
    linkage = 'extern "C" ' if function.c_linkage and '"C"' not in head else ""
    result = "return " if returns == "cudaError_t" else ""
    opened = "".join(f"namespace {one} {{\n" for one in function.namespaces)
    closed = "}\n" * len(function.namespaces)
    call = f"{result}::{task.entry}({', '.join(passed)});"
    lacking = [line for line in _SYSTEM.findall(original) if line not in winner]
    above = "".join(f"{line.strip()}\n" for line in lacking)
    below = f"{opened}{linkage}{head} {{\n  {call}\n}}\n{closed}"
    return f"{above}{winner.rstrip()}\n\n{below}"


def _passed(function: Function, task: Task) -> list[str] | None:
    """What the function gives each parameter of the contract's launcher, by their names."""
    given = {one.name for one in function.parameters}
    streams = [one.name for one in function.parameters if one.type in STREAMS]
    known = {name: name for name in given}
    known |= {"stream": streams[0] if streams else "nullptr"}
    if "dtype" not in given and len(task.dtypes) == 1:
        known["dtype"] = str(DTYPE_CODES[task.dtypes[0]])
    wanted = [name for _, name in parameters(task)]
    return [known[name] for name in wanted] if set(wanted) <= known.keys() else None
