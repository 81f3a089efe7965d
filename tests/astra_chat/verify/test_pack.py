"""A run packed and checked: signed, forged, with and without machine code."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from astra_chat.transcript.reader import read
from astra_chat.verify.bundle import MANIFEST, read_bundle
from astra_chat.verify.bundle_claims import CODE, FILES, PLANS, SIGNED
from astra_chat.verify.pack import pack
from astra_chat.verify.signature import public_key
from astra_chat.verify.verify import REPEATS, verify_bundle
from astra_vgpu.ground.errors import BadInput
from tests.astra_chat.verify.forgeries import VIRTUAL


def key_file(path: Path) -> Path:
    private = Ed25519PrivateKey.generate()
    path.write_bytes(
        private.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.PKCS8,
            serialization.NoEncryption(),
        )
    )
    return path


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("packed")
    key = key_file(folder / "key.pem")
    pack(read(VIRTUAL), folder / "b.zip", key=key, license="Apache-2.0", build=False)
    return folder / "b.zip"


def rewritten(path: Path, out: Path, name: str, content: bytes | None) -> Path:
    """The bundle with one member changed, or without it."""
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(out, "w") as new:
        for info in old.infolist():
            if info.filename != name:
                new.writestr(info, old.read(info))
        if content is not None:
            new.writestr(name, content)
    return out


def test_a_signed_bundle_stands(signed: Path) -> None:
    bundle = read_bundle(signed)
    key = public_key(signed.with_name("key.pem"))
    found = verify_bundle(bundle, key=key)
    assert found.stands and len(found.signed_by) == 16
    assert {"LICENSE", "README.md", "environment.json", "task/task.toml"} <= set(bundle.members)
    assert {one.name for one in found.claims if one.status == "unchecked"} == {CODE, PLANS, REPEATS}


@pytest.mark.second_tier
def test_packing_again_gives_the_same_bytes(tmp_path: Path) -> None:
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
        pack(read(VIRTUAL), tmp_path / name / "run.zip", build=False)
    assert (tmp_path / "a/run.zip").read_bytes() == (tmp_path / "b/run.zip").read_bytes()


@pytest.mark.second_tier
def test_another_key_and_a_changed_member_fail(signed: Path, tmp_path: Path) -> None:
    other = public_key(key_file(tmp_path / "other.pem"))
    failing = [
        c.name for c in verify_bundle(read_bundle(signed), key=other).claims if c.status == "fails"
    ]
    assert failing == [SIGNED]
    changed = rewritten(signed, tmp_path / "c.zip", "README.md", b"Trust me.")
    found = verify_bundle(read_bundle(changed))
    assert [c.name for c in found.claims if c.status == "fails"] == [FILES]
    text = read_bundle(signed).manifest_text.replace(b"Apache-2.0", b"MIT")
    forged = verify_bundle(read_bundle(rewritten(signed, tmp_path / "m.zip", MANIFEST, text)))
    assert [c.name for c in forged.claims if c.status == "fails"] == [SIGNED]
    assert forged.signed_by == ""


def test_a_bundle_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="cannot write"):
        pack(read(VIRTUAL), tmp_path / "none" / "b.zip", build=False)


@pytest.mark.second_tier
def test_machine_code_and_plans_have_their_recorded_hashes(tmp_path: Path) -> None:
    """With the nvcc that recorded the run; another one is said to make other machine code."""
    manifest = pack(read(VIRTUAL), tmp_path / "b.zip")
    found = verify_bundle(read_bundle(tmp_path / "b.zip"))
    assert found.stands
    names = {one.name for one in found.claims if one.status == "unchecked"}
    assert (CODE in names) == bool(manifest.left_out)
    if not manifest.left_out:
        assert names == {REPEATS}
        assert {n.split("/")[0] for n in manifest.files} >= {"cubins", "plans", "sources", "task"}
