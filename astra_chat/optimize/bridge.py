"""The user's launcher in plain C++ as a call of the winner's, which has the contract's parameters:
so the file keeps its functions where a candidate has the contract's launcher alone."""

from __future__ import annotations

import re

from astra_chat.tools.new.c_launcher import STREAMS
from astra_chat.tools.new.source import Function, code, functions, pieces
from astra_chat.tools.task.folder import Task
from astra_chat.tools.task.launcher import parameters
from astra_chat.tools.types import DTYPE_CODES

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
