"""Key files: what is not an Ed25519 key is one line."""

from __future__ import annotations

from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    PublicFormat,
)

from astra_chat.verify.signature import private_key, public_key, signs
from astra_vgpu.ground.errors import BadInput


def test_a_public_key_is_read_from_either_file(tmp_path: Path) -> None:
    key = Ed25519PrivateKey.generate()
    secret, public = tmp_path / "secret.pem", tmp_path / "public.pem"
    secret.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    public.write_bytes(
        key.public_key().public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    )
    assert public_key(secret) == public_key(public)
    signature = private_key(secret).sign(b"text")
    assert signs(public_key(public), signature, b"text")
    assert not signs(public_key(public), signature, b"texts") and not signs(b"", signature, b"text")


def test_another_kind_of_key_and_no_key_are_one_line(tmp_path: Path) -> None:
    path = tmp_path / "key.pem"
    path.write_bytes(
        generate_private_key(SECP256R1()).private_bytes(
            Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
        )
    )
    for text in (path.read_bytes(), b"no key"):
        path.write_bytes(text)
        with pytest.raises(BadInput, match="openssl genpkey"):
            private_key(path)
    with pytest.raises(BadInput, match="cannot read"):
        public_key(tmp_path / "none.pem")
