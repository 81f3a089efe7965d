"""Zip files in memory: written the same for equal content, and read within bounds.

A zip may come from anybody: nothing of it is extracted under a name that it chooses, and sizes are
bounded while they are read.
"""

from __future__ import annotations

import hashlib
import io
import zipfile
import zlib
from collections.abc import Mapping
from pathlib import Path

from astra_chat.tools.system.files import open_regular, write_whole
from astra_vgpu.ground.errors import BadInput

MAX_ZIP_BYTES = 2**27
MAX_BYTES = 2**28
"""Bytes of all members together, at most."""
MAX_MEMBERS = 20_000
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Date of every member: equal content makes an equal file."""


def read_zip(path: Path, what: str) -> dict[str, bytes]:
    """The members of a zip by name. Raises BadInput, in one line, for what is not `what` ("no
    bundle") or exceeds a bound."""
    try:
        with open_regular(path, MAX_ZIP_BYTES) as file, zipfile.ZipFile(file) as archive:
            return _members(path, archive)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise BadInput(f"{path} is {what}: {error}") from None


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, bytes]:
    infos = archive.infolist()
    names = {info.filename for info in infos}
    if len(infos) > MAX_MEMBERS or len(names) < len(infos):
        raise BadInput(f"{path}: it has too many members, or two with the same name")
    found, left = dict[str, bytes](), MAX_BYTES
    for info in infos:
        with archive.open(info) as member:
            found[info.filename] = member.read(left + 1)
        left -= len(found[info.filename])
        if left < 0:
            raise BadInput(f"{path} contains more than {MAX_BYTES:,} bytes")
    return found


def write_zip(out: Path, members: Mapping[str, bytes]) -> None:
    """Write members in the order of their names, whole or not at all. Raises BadInput."""
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w") as archive:
        for name in sorted(members):
            info = zipfile.ZipInfo(name, EPOCH)
            info.compress_type = zipfile.ZIP_DEFLATED
            info.external_attr = 0o644 << 16
            archive.writestr(info, members[name])
    write_whole(out, buffer.getvalue())


def sha256_of_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
