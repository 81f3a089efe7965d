"""What differs between two requests, in one line."""

from __future__ import annotations

from typing import Any

from astra_chat.models.recording import changes, difference, nearest


def request(*messages: str, **more: Any) -> dict[str, Any]:
    found = [{"type": "UserMessage", "content": text} for text in messages]
    return {"model": "m", "messages": found, **more}


def test_the_nearest_shares_the_most_lines() -> None:
    recorded = [request("a\nb\nc"), request("a\nb\nx\ny"), request("q")]
    assert nearest(request("a\nb\nx"), recorded) == 1
    assert nearest(request("q", "r"), recorded) == 2
    assert nearest(request("b\nc"), recorded) == 0


def test_the_first_message_that_differs_is_named() -> None:
    said = difference(request("same", "one\ntwo\nthree"), request("same", "one\n2\nthree"))
    assert said == "message 2 (UserMessage) differs: - 'two'; + '2'"


def test_more_messages_than_recorded() -> None:
    assert (
        difference(request("a"), request("a", "b"))
        == "it has 2 messages, but the recorded one has 1"
    )


def test_other_fields() -> None:
    before, after = request("a"), {**request("a"), "model": "n"}
    assert difference(before, after) == "'model' differs: - 'm'; + 'n'"
    said = difference(request("a", reply={"x": 1}), request("a", reply={"x": 2}))
    assert said.startswith("'reply' differs: ") and '"x": 2' in said


def test_long_differences_are_cut() -> None:
    said = changes("\n".join("abcdefgh"), "z" * 500)
    assert said.count("'") == 8 and said.endswith("and 5 more lines") and len(said) < 300
    assert "\n" not in changes("a\nb", "c\nd")
