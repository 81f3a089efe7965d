"""The files of a folder that a kernel needs: those that define it, and what these use."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from astra_chat.tools.new import c_launcher, framework
from astra_chat.tools.new.source import Function, Piece, code, functions, pieces, readable
from astra_vgpu.ground.errors import BadInput, reading

ENDINGS = (".cu", ".cpp", ".cc", ".cxx")


class _File:
    """A source with its functions and the names in it."""

    def __init__(self, path: Path) -> None:
        with reading(path):
            text = path.read_text()
        self.path = path
        self.every = pieces(readable(text))
        self.pieces: list[Piece] = code(self.every)
        self.functions: list[Function] = functions(self.pieces)
        modules = [f for f in self.functions if framework.is_module(f)]
        inside = {i for module in modules for i in range(module.body, module.close)}
        self.names = {p.text for i, p in enumerate(self.pieces) if i not in inside}
        self.registered = {self.pieces[i].text for i in inside}


def kernel_files(folder: Path, function: str | None, *, required: bool = True) -> list[Path]:
    """Source files of a folder, those of the chosen function alone if there are several. Raises
    BadInput where there is none, or where the choice is open; where none is required, the folder
    may be one of headers."""
    paths = sorted(
        p
        for p in folder.rglob("*")
        if p.suffix in ENDINGS
        and not any(part.startswith(".") for part in p.relative_to(folder).parts)
    )
    if not paths and not required:
        return []
    if not paths:
        raise BadInput(f"{folder} contains no file that ends in {', '.join(ENDINGS)}")
    if len(paths) == 1:
        return paths
    files = [_File(path) for path in paths]
    offered = _offered(files)
    if function is None and len(offered) > 1:
        raise BadInput(f"{folder} has {', '.join(offered)}: choose one with --op")
    wanted = function or next(iter(offered), None)
    if wanted not in offered:
        what = f"no function '{wanted}'; it has {', '.join(offered)}" if wanted else "no launcher"
        raise BadInput(f"{folder}: there is {what}")
    return [file.path for file in _needed(files, wanted, offered[wanted])]


def _offered(files: Sequence[_File]) -> dict[str, str]:
    """What the files export or offer as launchers: the C++ function by its name for callers."""
    exported: dict[str, str] = {}
    for file in files:
        others = (f for one in files if one is not file for f in one.functions)
        known = [*file.functions, *(f for f in others if not framework.is_module(f))]
        found = framework.exports(file.pieces, known)
        exported |= {export.name: export.function.name for export in found}
    if exported:
        return exported
    plain = [f for file in files for f in c_launcher.launchers(file.functions, file.every)]
    return {function.name: function.name for function in plain}


def _needed(files: Sequence[_File], name: str, target: str) -> list[_File]:
    """The files that define or register it, and those that define what these name, in order."""
    chosen = [
        f
        for f in files
        if any(one.name == target for one in f.functions)
        or target in f.registered
        or (framework.TVM_EXPORT in f.names and name in f.names)
    ]
    grown = True
    while grown:
        grown = False
        named = {name for file in chosen for name in file.names}
        for file in files:
            own = {f.name for f in file.functions if not framework.is_module(f)} - {"main"}
            if file not in chosen and own & named:
                chosen.append(file)
                grown = True
    return [file for file in files if file in chosen]
