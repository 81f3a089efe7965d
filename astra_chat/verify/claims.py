"""What a transcript claims, and whether it stands."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from astra_chat.tools.types import Value

Status = Literal["stands", "fails", "unchecked"]
"""unchecked: what would be needed is not recorded, or not here. It says nothing for or against."""
MOST = 120
"""Characters of a value in a claim."""
OLD = "recorded before evaluations had seeds and evidence"
NO_SAMPLES, NO_HASH = "recorded before samples were kept", "no hash of the judge is recorded"
TOO_OLD = (OLD, NO_SAMPLES, NO_HASH)
"""Why claims of a run of an early version of Astra cannot be checked."""
SCHEMA: Literal["astra-chat/verified/1"] = "astra-chat/verified/1"


class Claim(Value):
    """One statement of a transcript."""

    name: str
    """Kind of claim: one row of the table."""
    about: str
    """Turn, candidate or case."""
    status: Status
    why: str = ""
    """What was claimed and found, if it fails; what is missing, if it is unchecked."""


class Verification(Value):
    """All claims of one transcript."""

    model_config = ConfigDict(serialize_by_alias=True)

    schema_name: Literal["astra-chat/verified/1"] = Field(SCHEMA, alias="schema")
    run: str
    claims: tuple[Claim, ...]
    signed_by: str = ""
    """Fingerprint of the key whose signature of the bundle is valid; empty: there is none."""
    notes: tuple[str, ...] = ()
    """What was left out of the file, in one line each."""

    def count(self, status: Status) -> int:
        return sum(claim.status == status for claim in self.claims)

    @property
    def too_old(self) -> int:
        """Number of claims that nobody can check, since the run did not record what it takes."""
        return sum(claim.why in TOO_OLD for claim in self.claims)

    @property
    def stands(self) -> bool:
        """Whether nothing fails."""
        return not self.count("fails")

    @property
    def share(self) -> float:
        """Share of all claims that were recomputed and stand, 0 to 1."""
        return self.count("stands") / len(self.claims) if self.claims else 0.0


def claim(name: str, about: str, holds: bool, why: str = "") -> Claim:
    """Returns a claim that stands or fails; `why` is kept where it does not hold."""
    return Claim(
        name=name, about=about, status="stands" if holds else "fails", why="" if holds else why
    )


def unchecked(name: str, about: str, why: str) -> Claim:
    return Claim(name=name, about=about, status="unchecked", why=why)


def differences(pairs: Iterable[tuple[str, object, object]]) -> str:
    """ "ratio is recorded as 2.0, but recomputed as 1.5; ..." of (name, recorded, recomputed);
    "" where all agree. Numbers agree to nine digits: another CPU may round otherwise."""
    return "; ".join(
        f"{name} is recorded as {_text(said)}, but recomputed as {_text(found)}"
        for name, said, found in pairs
        if not same(said, found)
    )


def same(said: object, found: object) -> bool:
    """Whether two values are equal, numbers to nine digits."""
    if isinstance(said, float | int) and isinstance(found, float | int):
        return said == found or abs(said - found) <= 1e-9 * max(abs(said), abs(found))
    if isinstance(said, tuple | list) and isinstance(found, tuple | list):
        return len(said) == len(found) and all(map(same, said, found))
    return said == found


def _text(value: object) -> str:
    match value:
        case None:
            return "none"
        case float():
            return f"{value:.6g}"
        case BaseModel():
            fields = ((name, getattr(value, name)) for name in type(value).model_fields)
            return cut(", ".join(f"{name} {_text(one)}" for name, one in fields))
        case str():
            return cut(value) or "none"
        case Iterable():
            return cut(", ".join(map(_text, value))) or "none"
        case _:
            return cut(str(value))


def cut(text: str) -> str:
    """The part of a text that one claim has room for."""
    return text if len(text) <= MOST else f"{text[:MOST]} ..."


def by_name(claims: Sequence[Claim]) -> dict[str, list[Claim]]:
    """Returns the claims by name, in the order of their first ones."""
    found: dict[str, list[Claim]] = {}
    for one in claims:
        found.setdefault(one.name, []).append(one)
    return found
