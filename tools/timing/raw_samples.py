"""Raw samples of a measured time as text for a transcript, and back.

JSON, compressed by zlib, in base64: a reader in any language can undo it.
"""

from __future__ import annotations

import base64
import binascii
import zlib

from pydantic import ValidationError

from astra_chat.tools.run.protocol import RawTimes
from astra_vgpu.ground.errors import BadInput

MOST_BYTES = 2**24
"""Most bytes of the JSON. A case has a few hundred samples."""


def pack(raw: RawTimes) -> str:
    """The samples as text; nothing is rounded."""
    return base64.b64encode(zlib.compress(raw.model_dump_json().encode(), 9)).decode()


def unpack(text: str) -> RawTimes:
    """The samples of a text. Raises BadInput for text that `pack` did not make."""
    try:
        stream = zlib.decompressobj()
        content = stream.decompress(base64.b64decode(text, validate=True), MOST_BYTES)
        if not stream.eof:
            raise BadInput(
                "the raw samples are truncated, or there are more than a measurement can have"
            )
        return RawTimes.model_validate_json(content)
    except (binascii.Error, zlib.error, ValidationError) as error:
        first = str(error).splitlines()[0]
        raise BadInput(f"raw samples that cannot come from a measurement: {first}") from None
