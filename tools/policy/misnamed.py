"""A file that does not define what its task calls: one sentence with the name that was meant."""

from __future__ import annotations

import re

from astra_chat.tools.cpp_tokens import Code, tokens
from astra_chat.tools.task.folder import Task
from astra_chat.tools.wording import did_you_mean

_REGISTERED = re.compile(r'"(?:\w+::)?(\w+)\s*[("]')


def misnamed(task: Task, source: str) -> str:
    """What [binding] calls and neither the file nor a header of the task names; "" if one does."""
    binding = task.binding
    if binding is None or binding.launcher:
        return ""
    name = binding.name
    texts = (source, *task.header_texts().values())
    if any(re.search(rf"\b(?:{name}|{task.entry})\b", text) for text in texts):
        return ""
    kind = "operator" if binding.operator else "function"
    names = _REGISTERED.findall(source) if binding.operator else _code(source).defined_names()
    meant = did_you_mean(name, names)
    return f"the file has no {kind} {name}, which [binding] in task.toml calls{meant}"


def _code(source: str) -> Code:
    return Code(token for token in tokens(source) if not token.directive)
