"""One answer of a model, with what AutoGen's own result leaves out: refusals and token details."""

from __future__ import annotations

from autogen_core.models import CreateResult

from astra_chat.agents.reply_errors import UnusableReply

SHOWN = 400
"""Characters of a refusal that are sent back."""


class Answer(CreateResult):
    """What a model answered; nothing of a bad answer is lost."""

    refusal: str = ""
    """The model's own words where it refused."""
    cached_tokens: int = 0
    """Prompt tokens that the server had in its cache: they cost less."""
    reasoning_tokens: int = 0
    """Completion tokens spent on reasoning, which are not part of the reply."""
    answered_by: str = ""
    """Who answered in a mailbox, as stated with the answer; empty: not stated, or no mailbox."""
    refused: int = 0
    """Answers in a mailbox that were rejected before this one."""


def require_usable(result: CreateResult) -> None:
    """Raise UnusableReply, with a text for the model, if an answer cannot be parsed."""
    text = result.content if isinstance(result.content, str) else ""
    if isinstance(result, Answer) and result.refusal:
        raise UnusableReply(
            f"it was a refusal: {result.refusal[:SHOWN]!r}; if you cannot do this, answer with the"
            " JSON object whose kind is 'pass' and say why",
            said=result.refusal,
        )
    if result.finish_reason == "content_filter":
        raise UnusableReply("it was withheld by the server's content filter; rephrase it")
    if result.finish_reason == "length":
        raise UnusableReply(
            f"it was cut off after {result.usage.completion_tokens} tokens, the limit for"
            " one answer; answer more briefly"
        )
    if not text.strip():
        raise UnusableReply("it was empty")
    if text.lstrip().startswith("```"):
        raise UnusableReply(
            "it is in a Markdown fence; the first character must be '{' and the last '}'",
            said=text,
        )
