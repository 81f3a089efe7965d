"""Ed25519 signatures over a bundle's manifest. The key files are the user's, in PEM."""

from __future__ import annotations

from pathlib import Path

from astra_vgpu.ground.errors import BadInput, MissingDependency, reading

try:
    from cryptography.exceptions import InvalidSignature
    from cryptography.hazmat.primitives.asymmetric.ed25519 import (
        Ed25519PrivateKey,
        Ed25519PublicKey,
    )
    from cryptography.hazmat.primitives.serialization import (
        load_pem_private_key,
        load_pem_public_key,
    )
except ImportError:
    raise MissingDependency(
        "signatures need cryptography: pip install 'astra-chat[signing]'"
    ) from None

HOW = "openssl genpkey -algorithm ed25519 -out key.pem"


def private_key(path: Path) -> Ed25519PrivateKey:
    """Raises BadInput for what is no unencrypted Ed25519 key."""
    with reading(path):
        text = path.read_bytes()
    try:
        key = load_pem_private_key(text, password=None)
    except (ValueError, TypeError):
        raise BadInput(
            f"{path} is not a private key in PEM form without a password: {HOW}"
        ) from None
    if not isinstance(key, Ed25519PrivateKey):
        raise BadInput(f"{path} is not an Ed25519 key: {HOW}")
    return key


def public_key(path: Path) -> bytes:
    """The 32 bytes of a public key, or of the private key's. Raises BadInput."""
    with reading(path):
        text = path.read_bytes()
    try:
        key = load_pem_public_key(text)
    except ValueError:
        key = private_key(path).public_key()
    if not isinstance(key, Ed25519PublicKey):
        raise BadInput(f"{path} is not an Ed25519 key: {HOW}")
    return key.public_bytes_raw()


def signs(key: bytes, signature: bytes, content: bytes) -> bool:
    """Whether the signature over the content was made by this public key's owner."""
    try:
        Ed25519PublicKey.from_public_bytes(key).verify(signature, content)
    except (InvalidSignature, ValueError):
        return False
    return True
