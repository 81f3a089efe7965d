"""A run as one file: a zip with the transcript and what its hashes name.

manifest.json lists every other member with its sha256; manifest.sig is a signature over it. A
bundle may come from anybody: nothing of it is extracted under a name that it chooses, and sizes are
bounded while they are read.
"""

from __future__ import annotations

import hashlib
import tempfile
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from astra_chat.tools.errors import BadInput
from astra_chat.tools.types import Value
from astra_chat.transcript.lines import open_regular
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.run_folder import TRANSCRIPT

MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"
MAX_ZIP_BYTES = 2**27
MAX_BYTES = 2**28
"""Of all members together."""
MAX_MEMBERS = 20_000
EPOCH = (1980, 1, 1, 0, 0, 0)
"""Of all members: equal content makes an equal file."""
Hex64 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(Value):
    """What a bundle holds."""

    schema_version: Literal[1] = 1
    run: str
    astra: str
    """Version that packed it."""
    license: str
    """Of task and candidates, as the packer states it (SPDX); empty: not stated."""
    files: dict[str, Hex64]
    """sha256 of every other member, by name."""
    public_key: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    """Of the signature, 32 bytes in hex; empty: not signed."""
    left_out: tuple[str, ...] = ()
    """What the packer could not make, in one line each."""


@dataclass(frozen=True)
class Bundle:
    """A bundle in memory."""

    path: Path
    manifest: Manifest
    manifest_text: bytes
    members: Mapping[str, bytes]
    """All but the manifest and its signature."""
    signature: bytes | None


def is_bundle(path: Path) -> bool:
    """Whether a file begins as a zip does. False for what cannot be read: its reader says why."""
    try:
        with open_regular(path, 2**62) as file:
            return file.read(4) == b"PK\x03\x04"
    except (OSError, BadInput, ValueError):
        return False


def read_bundle(path: Path) -> Bundle:
    """Raises BadInput, in one line, for what is no bundle or exceeds a bound."""
    try:
        with open_regular(path, MAX_ZIP_BYTES) as file, zipfile.ZipFile(file) as archive:
            members = _members(path, archive)
        text = members.pop(MANIFEST)
        manifest = Manifest.model_validate_json(text)
    except OSError as error:
        raise BadInput(f"cannot read {path}: {error.strerror or error}") from None
    except (zipfile.BadZipFile, zlib.error, NotImplementedError, RuntimeError, EOFError) as error:
        raise BadInput(f"{path} is no bundle: {error}") from None
    except KeyError:
        raise BadInput(f"{path} is no bundle: it has no {MANIFEST}") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{path}: {MANIFEST}: {field}: {first['msg']}") from None
    signature = members.pop(SIGNATURE, None)
    return Bundle(path, manifest, text, members, signature)


def _members(path: Path, archive: zipfile.ZipFile) -> dict[str, bytes]:
    infos = archive.infolist()
    names = {info.filename for info in infos}
    if len(infos) > MAX_MEMBERS or len(names) < len(infos):
        raise BadInput(f"{path}: too many members, or two of one name")
    found, left = dict[str, bytes](), MAX_BYTES
    for info in infos:
        with archive.open(info) as member:
            found[info.filename] = member.read(left + 1)
        left -= len(found[info.filename])
        if left < 0:
            raise BadInput(f"{path} holds more than {MAX_BYTES:,} bytes")
    return found


@contextmanager
def transcript_of(bundle: Bundle) -> Iterator[Transcript]:
    """The transcript in a bundle, in a folder of its own while it is open. Raises BadInput."""
    text = bundle.members.get(TRANSCRIPT)
    if text is None:
        raise BadInput(f"{bundle.path} has no {TRANSCRIPT}")
    with tempfile.TemporaryDirectory(prefix="astra-bundle-") as folder:
        path = Path(folder) / TRANSCRIPT
        path.write_bytes(text)
        yield read(path)


def zipped(members: Mapping[str, bytes]) -> Iterator[tuple[zipfile.ZipInfo, bytes]]:
    """Members in the order of their names, the transcript readable without the rest."""
    for name in sorted(members):
        info = zipfile.ZipInfo(name, EPOCH)
        info.compress_type = zipfile.ZIP_DEFLATED
        info.external_attr = 0o644 << 16
        yield info, members[name]


def sha256_of_bytes(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
