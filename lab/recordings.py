"""Archives of recorded runs and measurements: `python -m lab.recordings`.

    list ARCHIVE                     the members, with their sha256
    pack FOLDER ARCHIVE              a new archive of all files in FOLDER
    add ARCHIVE FILE NAME            add a file, or replace the one of that name
    remove ARCHIVE NAME              remove a member
    unpack ARCHIVE FOLDER            all members as files; or ARCHIVE/FOLDER, ARCHIVE/MEMBER
    check ARCHIVE                    check that every member matches its sha256

FILE may be compressed with xz or gzip; NAME, and a name in FOLDER, is then given without .xz or
.gz. A default run of a task stays in the task's folder, and the archive only names it. The same
files always produce the same archive; nothing is written before all members have been read back
from it."""

from __future__ import annotations

import argparse
from collections.abc import Callable, Mapping
from pathlib import Path

from astra_chat.tools.recordings.archive import Archive, packed, sha256
from astra_chat.tools.recordings.reading import (
    default_runs,
    expanded,
    in_archive,
    names_in,
    read_recorded,
)
from astra_chat.tools.system.files import write_whole
from astra_vgpu.ground.errors import BadInput
from lab.commands import one_line_errors


def files_in(folder: Path) -> dict[str, bytes]:
    """All files in a folder by name, unpacked. Raises BadInput."""
    paths = sorted(p for p in folder.rglob("*") if p.is_file())
    if not paths:
        raise BadInput(f"{folder} contains no files")
    names = (p.relative_to(folder).as_posix() for p in paths)
    plain = (name.removesuffix(".gz").removesuffix(".xz") for name in names)
    return dict(zip(plain, map(read_recorded, paths), strict=True))


def content(archive: Path) -> dict[str, bytes]:
    """All members of an archive. Raises BadInput."""
    return {name: read_recorded(archive / name) for name in names_in(archive)}


def write(archive: Path, files: Mapping[str, bytes]) -> None:
    """Raises BadInput, for files that an archive would not keep to the last byte, too."""
    try:
        made = packed(files, default_runs())
    except ValueError as error:
        raise BadInput(str(error)) from None
    held = Archive(made)
    for name, member in held.index.members.items():
        if member.default_of is None and held.read(name) != files[name]:
            raise BadInput(f"{name} would not unpack to the same bytes")
    write_whole(archive, made)


def add(archive: Path, file: Path, name: str) -> None:
    write(archive, {**content(archive), name: read_recorded(file)})


def remove(archive: Path, name: str) -> None:
    files = content(archive)
    if name not in files:
        raise BadInput(f"{archive} contains no {name}")
    write(archive, {n: c for n, c in files.items() if n != name})


def unpack(archive: Path, folder: Path) -> None:
    for path in expanded([archive]):
        where = in_archive(path)
        if where is None:
            raise BadInput(f"{path} is not an archive")
        out = folder / where[1]
        if not out.resolve().is_relative_to(folder.resolve()):
            raise BadInput(f"{path} would be outside {folder}")
        out.parent.mkdir(parents=True, exist_ok=True)
        write_whole(out, read_recorded(path))


def check(archive: Path) -> None:
    for name, member in names_in(archive).items():
        if sha256(read_recorded(archive / name)) != member.sha256:
            raise BadInput(f"{archive / name} has changed since it was packed")


def _list(archive: Path) -> None:
    for name, member in names_in(archive).items():
        place = f"  in sglang_kernels/{member.default_of}" if member.default_of else ""
        print(f"{member.sha256}  {name}{place}")


COMMANDS: Mapping[str, tuple[Callable[..., None], Mapping[str, type]]] = {
    "list": (_list, {"archive": Path}),
    "pack": (
        lambda folder, archive: write(archive, files_in(folder)),
        {"folder": Path, "archive": Path},
    ),
    "add": (add, {"archive": Path, "file": Path, "name": str}),
    "remove": (remove, {"archive": Path, "name": str}),
    "unpack": (unpack, {"archive": Path, "folder": Path}),
    "check": (check, {"archive": Path}),
}


@one_line_errors()
def main() -> None:
    parser = argparse.ArgumentParser(
        prog="python -m lab.recordings",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="what", required=True)
    for what, (_, arguments) in COMMANDS.items():
        command = commands.add_parser(what)
        for name, kind in arguments.items():
            command.add_argument(name, type=kind, metavar=name.upper())
    given = vars(parser.parse_args())
    does, arguments = COMMANDS[given["what"]]
    does(*(given[name] for name in arguments))


if __name__ == "__main__":
    main()
