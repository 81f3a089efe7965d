"""Numbers agree to nine digits, and a verification counts its claims."""

from __future__ import annotations

from astra_chat.transcript.spending import Tokens
from astra_chat.verify.claims import Verification, by_name, claim, differences, unchecked


def test_numbers_agree_to_nine_digits() -> None:
    assert differences([("a", 1.0, 1.0 + 1e-12), ("b", (1, 2.0), (1, 2.0))]) == ""
    assert differences([("a", 1.0, 1.0001)]) == "a is recorded as 1, but recomputed as 1.0001"
    assert differences([("a", (1.0,), (1.0, 2.0)), ("b", None, 0.0)]).count("recorded") == 2
    said = "winner is recorded as ab12, but recomputed as none"
    assert differences([("winner", "ab12", None)]) == said
    tokens = differences([("tokens", Tokens(prompt=3), Tokens(prompt=4))])
    assert "prompt 3" in tokens and "prompt 4" in tokens and "(" not in tokens


def test_a_verification_counts() -> None:
    claims = (
        claim("one", "x", True, "why"),
        claim("one", "y", False, "why"),
        unchecked("two", "z", "no samples"),
    )
    found = Verification(schema="astra-chat/verified/1", run="r", claims=claims)
    assert not found.stands and found.share == 1 / 3 and claims[0].why == ""
    assert {name: len(some) for name, some in by_name(claims).items()} == {"one": 2, "two": 1}
    assert found.model_dump()["schema"] == "astra-chat/verified/1"
