"""What a finished run leaves for the user: the patch, the evidence page and the commands for them.

The patch goes from the file as it was when the task was made to the confirmed winner. There
the winner has the same functions for the same callers.
"""

from __future__ import annotations

import difflib
import os
import posixpath
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from astra_chat.agents.run_state import state_of
from astra_chat.optimize.own_folder import Begun, OwnFolder
from astra_chat.optimize.repository import Place, blob_id
from astra_chat.report.html import report
from astra_chat.tools.build.nvcc import Build, build
from astra_chat.tools.new import c_launcher, framework
from astra_chat.tools.new.c_launcher import STREAMS
from astra_chat.tools.new.source import Function, Piece, code, functions, pieces
from astra_chat.tools.system.files import write_whole
from astra_chat.tools.task.folder import Task, load_task
from astra_chat.tools.task.launcher import parameters
from astra_chat.tools.types import DTYPE_CODES, Device
from astra_chat.transcript.reader import Transcript
from astra_chat.transcript.summary import Timing, summarize
from astra_chat.transcript.turns import turns_of

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*"([^"\n]+)"', re.MULTILINE)


@dataclass(frozen=True)
class Written:
    """What the user reads of it, line by line; the last says why there is no patch."""

    lines: tuple[str, ...]
    patched: bool


def written(own: OwnFolder, begun: Begun, place: Place, transcript: Transcript) -> Written:
    """Write patch and page. Without a winner that was confirmed there is no patch, and one of an
    earlier session goes."""
    own.patch.unlink(missing_ok=True)
    best = summarize(transcript.records).best
    try:
        if best is None or not best.confirmed:
            raise _NoPatch(
                "the fastest candidate was not confirmed" if best else "no candidate was accepted"
            )
        lines = [*_patched(own, begun, place, transcript, best)]
        lines.append(f"evidence: {own.evidence}")
        lines.append(_again_line(own, begun, place, transcript))
        patched = True
    except _NoPatch as why:
        lines, patched = [f"evidence: {own.evidence}", f"no patch: {why}"], False
    notes = [line for line in lines if not line.startswith("evidence: ")]
    write_whole(own.evidence, report([transcript], notes).encode())
    return Written(tuple(lines), patched)


class _NoPatch(Exception):
    """The reason, as text."""


def _again_line(own: OwnFolder, begun: Begun, place: Place, transcript: Transcript) -> str:
    where = f"in {place.top}" if place.in_git else f"beside {place.path.name}"
    command = again_command(own, begun, place, transcript)
    return f"judge the patched file again, {where}: {command}"


def again_command(own: OwnFolder, begun: Begun, place: Place, transcript: Transcript) -> str:
    """The command that judges the user's file, once patched, beside what it was; paths are from
    the top of its repository."""
    device, options = transcript.header.device, transcript.options
    where = ["virtual", "--gpu", device.spec] if device.kind == "virtual" else ["cuda"]
    cases = ["--cases", options.cases] if options.cases else []
    trust = ["--trust"] if options.trust else []
    task = os.path.relpath(own.task.resolve(), place.top)
    words = ["astra-chat", "evaluate", task, begun.file, "--final", "--device", *where]
    return shlex.join([*words, *cases, *trust])


def _patched(
    own: OwnFolder, begun: Begun, place: Place, transcript: Transcript, best: Timing
) -> Iterator[str]:
    task, device = load_task(own.task), transcript.header.device
    winner = state_of(turns_of(transcript.records)).sources[best.candidate]
    form = _built(own_form(winner, own.original, task), task, device)
    gain = f"{best.basis} {best.ratio:.3f}x its speed, confirmed on fresh seeds"
    if form.lacking:
        lost = ", ".join(form.lacking)
        raise _NoPatch(f"candidate {best.candidate} ({gain}) lacks {lost}, which {begun.file} has")
    text = like(own.original, form.text)
    changes = [
        Change(begun.file, own.original, text, begun.mode),
        *_headers(winner, task.header_texts(), place),
    ]
    words = (
        f"{begun.file}: candidate {best.candidate}, {gain} ({device.name})",
        f"against the content with sha256 {begun.sha256} (git blob {begun.blob})",
        *([f"made with commit {begun.commit} checked out"] if begun.commit else []),
        _again_line(own, begun, place, transcript),
    )
    write_whole(own.patch, patch_text(changes, words).encode())
    yield f"{begun.file}: {gain}"
    if form.bridged:
        yield f"its {form.bridged} calls the winner's launcher, {task.entry}: test this call once"
    yield f"patch: {own.patch}, for the file with sha256 {begun.sha256}"
    yield from _way(own, begun, place, text)


def _way(own: OwnFolder, begun: Begun, place: Place, text: str) -> Iterator[str]:
    """How the patch is applied to the file as it is now."""
    now = place.path.read_bytes().decode(errors="replace")
    if now == text:
        yield f"{begun.file} already has this patch"
        return
    command = ["git", "-C", str(place.top), "apply", str(own.patch.resolve())]
    yield f"apply it: {shlex.join(command)}"
    if now != own.original:
        yield f"{begun.file} has changed: add --3way, or optimize it again with a different -o"


def _built(form: OwnForm, task: Task, device: Device) -> OwnForm:
    """What was put together here is built before it is given to anybody."""
    if form.bridged and not isinstance(build(task, form.text, device), Build):
        return OwnForm(form.text, (form.bridged,))
    return form


def _headers(winner: str, headers: Mapping[str, str], place: Place) -> Iterator[Change]:
    """Files of the task that the winner includes by their names there, and what those include
    beside them: each as far as it is not beside the user's file already."""
    folder = place.path.parent
    found: list[str] = []
    left = [("", winner)]
    while left:
        base, text = left.pop()
        for included in _INCLUDE.findall(text):
            name = posixpath.normpath(posixpath.join(base, included))
            if name in headers and name not in found:
                found.append(name)
                left.append((posixpath.dirname(name), headers[name]))
    for name in found:
        path = folder / name
        before = path.read_bytes().decode(errors="replace") if path.is_file() else None
        after = headers[name] if before is None else like(before, headers[name])
        if before != after:
            yield Change(path.relative_to(place.top).as_posix(), before, after)


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


# Changed files as a patch for `git apply` and `patch -p1`.

NO_NEWLINE = "\\ No newline at end of file\n"
ABSENT = "0" * 40


@dataclass(frozen=True)
class Change:
    """One file, by its name below the folder that the patch is applied in."""

    name: str
    before: str | None
    """None: there is no such file."""
    after: str
    mode: str = "100644"


def patch_text(changes: Sequence[Change], words: Sequence[str]) -> str:
    """The patch; `words` stand above it, a line each."""
    head = "".join(f"{line}\n" for line in words)
    return head + "\n" + "".join(part for one in changes for part in _changed(one))


def like(before: str, after: str) -> str:
    """`after` with CRLF line ends, if `before` has them everywhere."""
    dos = "\r\n" in before and not re.search(r"(?<!\r)\n", before)
    return after.replace("\n", "\r\n") if dos else after


def _changed(change: Change) -> Iterator[str]:
    old, new = _name("a", change.name), _name("b", change.name)
    before = change.before or ""
    yield f"diff --git {old} {new}\n"
    blobs = (ABSENT if change.before is None else blob_id(before.encode()), _blob(change.after))
    if change.before is None:
        yield f"new file mode {change.mode}\nindex {blobs[0]}..{blobs[1]}\n"
    else:
        yield f"index {blobs[0]}..{blobs[1]} {change.mode}\n"
    end = "\t" if " " in change.name else ""  # where a name with blanks ends
    yield f"--- {'/dev/null' if change.before is None else old + end}\n+++ {new}{end}\n"
    lines = difflib.unified_diff(_lines(before), _lines(change.after))
    for number, line in enumerate(lines):
        if number > 1:  # the names stand above
            yield line if line.endswith("\n") else f"{line}\n{NO_NEWLINE}"


def _blob(text: str) -> str:
    return blob_id(text.encode())


def _lines(text: str) -> list[str]:
    """Lines with their ends; only \\n ends one."""
    return re.findall(r"[^\n]*\n|[^\n]+$", text)


def _name(side: str, name: str) -> str:
    """A name as git has it: quoted, if it has to be."""
    whole = f"{side}/{name}"
    quoted = "".join(_quoted(letter) for letter in whole)
    return whole if quoted == whole else f'"{quoted}"'


def _quoted(letter: str) -> str:
    if letter in '"\\':
        return f"\\{letter}"
    return letter if letter.isprintable() else "".join(f"\\{b:03o}" for b in letter.encode())
