"""A run as one file: a zip with the transcript and what its hashes name.

manifest.json lists every other member with its sha256; manifest.sig is a signature over it.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, ValidationError

from astra_chat.tools.system.files import open_regular
from astra_chat.tools.types import Value
from astra_chat.transcript.archive import read_zip
from astra_chat.transcript.reader import Transcript, read
from astra_chat.transcript.run_folder import TRANSCRIPT
from astra_vgpu.ground.errors import BadInput

MANIFEST, SIGNATURE = "manifest.json", "manifest.sig"
Hex64 = Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]


class Manifest(Value):
    """What a bundle holds."""

    schema_version: Literal[1] = 1
    run: str
    astra: str
    """Version of Astra that packed the bundle."""
    license: str
    """Licence of task and candidates, as the packer states it (SPDX); empty: not stated."""
    files: dict[str, Hex64]
    """sha256 of every other member, by name."""
    public_key: str = Field(default="", pattern=r"^([0-9a-f]{64})?$")
    """Public key of the signature, 32 bytes in hex; empty: not signed."""
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
    """Read a bundle. Raises BadInput, in one line, for what is no bundle or exceeds a bound."""
    members = read_zip(path, "no bundle")
    try:
        text = members.pop(MANIFEST)
        manifest = Manifest.model_validate_json(text)
    except KeyError:
        raise BadInput(f"{path} is not a bundle: it has no {MANIFEST}") from None
    except ValidationError as error:
        first = error.errors()[0]
        field = ".".join(str(part) for part in first["loc"])
        raise BadInput(f"{path}: {MANIFEST}: {field}: {first['msg']}") from None
    signature = members.pop(SIGNATURE, None)
    return Bundle(path, manifest, text, members, signature)


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
