"""Recorded files wherever they lie: as they are, compressed by xz or gzip, or in an archive.

A member of an archive has a path like any file: FOLDER/NAME.tar.xz/member/of/it.jsonl. Nothing is
unpacked onto the disk. An archive is unpacked into memory once, when a first member is read.
"""

from __future__ import annotations

import hashlib
import lzma
import tarfile
import zlib
from collections.abc import Callable, Iterable
from fnmatch import fnmatchcase
from functools import lru_cache
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Protocol

from astra_chat.tools.system.files import open_regular
from astra_chat.tools.task.folder import BUILTIN, TRANSCRIPT
from astra_chat.tools.wording import nearest
from astra_vgpu.ground.errors import BadInput

if TYPE_CHECKING:
    from astra_chat.tools.recordings.archive import Archive, Member

SUFFIX = ".tar.xz"
MOST_BYTES = 2**27
"""Bytes of a file, at most."""
DAMAGE = (
    ValueError,
    TypeError,
    LookupError,
    ArithmeticError,
    AttributeError,
    RecursionError,
)
"""What reading an archive may raise that we did not write."""
PATTERN = frozenset("*?[")
UNPACKERS: dict[str, Callable[[], Unpacker]] = {
    ".xz": lambda: lzma.LZMADecompressor(memlimit=MOST_BYTES),
    ".gz": lambda: zlib.decompressobj(16 + zlib.MAX_WBITS),
}
"""What unpacks a compressed file, by the end of its name."""


class Unpacker(Protocol):
    """What unpacks one stream of bytes."""

    @property
    def eof(self) -> bool: ...

    def decompress(self, data: bytes, max_length: int, /) -> bytes: ...


def read_recorded(path: Path) -> bytes:
    """The content of a recorded file. Raises BadInput in one line."""
    if found := in_archive(path):
        return _member(*found)
    content = _content(path)
    unpacker = UNPACKERS.get(path.suffix)
    return _unpacked(path, content, unpacker()) if unpacker else content


def in_archive(path: Path) -> tuple[Path, str] | None:
    """The archive in which a path leads, and the name of the member; "" for all of it."""
    for place, part in enumerate(path.parts, 1):
        if part.endswith(SUFFIX):
            return Path(*path.parts[:place]), PurePosixPath(*path.parts[place:]).as_posix()
    return None


def expanded(paths: Iterable[Path]) -> list[Path]:
    """Each path that leads to an archive, to a folder in one, or to members by a pattern (as a
    shell's) as the paths of these members; other paths as they are. Raises BadInput."""
    found = list[Path]()
    for path in paths:
        where = in_archive(path)
        found += [path] if where is None else _members(*where)
    return found


def names_in(archive: Path) -> dict[str, Member]:
    """The members of an archive by name. Raises BadInput."""
    return _opened(archive).index.members


def default_runs() -> dict[str, bytes]:
    """The recorded run of each shipped task that has one, by task."""
    return {p.parent.name: read_recorded(p) for p in sorted(BUILTIN.glob(f"*/{TRANSCRIPT}"))}


def _members(archive: Path, name: str) -> list[Path]:
    names = sorted(names_in(archive))
    if name in names:
        return [archive / name]
    if PATTERN & set(name):
        depth = name.count("/")
        some = [n for n in names if n.count("/") == depth and fnmatchcase(n, name)]
    else:
        some = [n for n in names if name in (".", "") or n.startswith(f"{name}/")]
    if not some:
        raise _no_member(archive, name)
    return [archive / one for one in some]


def _member(path: Path, name: str) -> bytes:
    archive = _opened(path)
    member = archive.index.members.get(name)
    if member is None:
        raise _no_member(path, name)
    if member.default_of is not None:
        return _default_run(path / name, member.default_of, member.sha256)
    try:
        return archive.read(name)
    except DAMAGE as error:
        raise BadInput(f"{path} is damaged: {name}: {type(error).__name__}") from None


def _default_run(path: Path, task: str, expected: str) -> bytes:
    """The recorded run in a task's folder. The archive names the task only by the name of a folder
    in ours: nothing that it says leads elsewhere."""
    file = BUILTIN / PurePosixPath(task).name / TRANSCRIPT
    content = read_recorded(file)
    if hashlib.sha256(content).hexdigest() != expected:
        raise BadInput(f"{path} was the default run of {task}, but {file} now contains another run")
    return content


def _no_member(archive: Path, name: str) -> BadInput:
    if name in ("", "."):
        first = archive / min(names_in(archive), default="NAME")
        return BadInput(f"{archive} is an archive: name one of its members, as in {first}")
    near = nearest(name, names_in(archive))
    hint = f"; did you mean {archive / near}?" if near else ""
    return BadInput(f"{archive} contains no {name}{hint}")


def _opened(path: Path) -> Archive:
    try:
        state = path.stat()
        return _read(path.resolve(), state.st_mtime_ns, state.st_size)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None
    except EOFError:
        raise BadInput(f"cannot unpack {path}: the file is cut off") from None
    except lzma.LZMAError as error:
        raise BadInput(f"cannot unpack {path}: {str(error).lower()}") from None
    except (*DAMAGE, tarfile.TarError) as error:
        first = str(error).partition("\n")[0]
        raise BadInput(f"{path} is not an archive of recordings: {first}") from None


@lru_cache(maxsize=2)
def _read(path: Path, changed_ns: int, size: int) -> Archive:
    """Kept while the file stays as it is: the arguments tell."""
    from astra_chat.tools.recordings.archive import Archive  # numpy: not before it is needed

    with open_regular(path, MOST_BYTES) as file:
        return Archive(file.read())


def _content(path: Path) -> bytes:
    try:
        with open_regular(path, MOST_BYTES) as file:
            return file.read()
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror}") from None


def _unpacked(path: Path, content: bytes, stream: Unpacker) -> bytes:
    try:
        found = stream.decompress(content, MOST_BYTES + 1)
    except (zlib.error, lzma.LZMAError) as error:
        raise BadInput(f"cannot unpack {path}: {error}") from None
    if len(found) > MOST_BYTES:
        raise BadInput(f"{path}: unpacked, the file exceeds {MOST_BYTES:,} bytes")
    if not stream.eof:
        raise BadInput(f"cannot unpack {path}: the file is cut off")
    return found
