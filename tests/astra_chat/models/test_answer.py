"""Which answers cannot be read, and what the model is told of them."""

from __future__ import annotations

from typing import Any

import pytest
from autogen_core.models import CreateResult, RequestUsage

from astra_chat.agents.reply_errors import UnusableReply
from astra_chat.models.answer import Answer, require_usable


def answer(content: str = "{}", **more: Any) -> Answer:
    usage = RequestUsage(prompt_tokens=10, completion_tokens=33)
    given: dict[str, Any] = {"finish_reason": "stop", "usage": usage, "cached": False, **more}
    return Answer(content=content, **given)


@pytest.mark.parametrize(
    ("bad", "reason", "remembered"),
    [
        (answer("{", finish_reason="length"), "cut off after 33 tokens", "(no readable"),
        (answer("{}", finish_reason="content_filter"), "content filter", "(no readable"),
        (answer("", refusal="I won't."), 'a refusal: "I won\'t."', "I won't."),
        (answer(""), "it was empty", "(no readable"),
        (answer(" \n"), "it was empty", "(no readable"),
        (answer("```json\n{}\n```"), "Markdown fence", "```json"),
    ],
)
def test_each_kind_has_its_own_words(bad: Answer, reason: str, remembered: str) -> None:
    with pytest.raises(UnusableReply) as caught:
        require_usable(bad)
    assert reason in caught.value.reason and caught.value.said.startswith(remembered)


def test_what_can_be_read_goes_through() -> None:
    require_usable(answer("no JSON, which others will say"))
    require_usable(answer('{"source": "```"}'))
    plain = CreateResult(
        finish_reason="unknown",
        content="{}",
        cached=False,
        usage=RequestUsage(prompt_tokens=0, completion_tokens=0),
    )
    require_usable(plain)
