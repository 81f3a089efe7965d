"""Names for sizes that a host function only mentions, as in k<<<x.size(0), 128>>>.

Each gets a name, so that it can be a dim of the task.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

_CHECK = re.compile(
    r"\s*(TORCH_\w*(CHECK|ASSERT)\w*|CHECK\w*|AT_(ASSERT|CHECK)\w*|TVM_FFI_\w*CHECK\w*)\s*\("
)
_NAMED = re.compile(r"^[^()<]*?\b(\w+)\s*=\s*(?:static_cast<[\w:]+>\(|\(int\))?\s*$")
_ASKED = (
    r"\s*(?:\.|->)\s*(?:size\s*\(\s*(-?\d+)\s*\)"
    r"|(?:sizes|shape)\s*\(\s*\)\s*\[\s*(-?\d+)\s*\]|(numel)\s*\(\s*\))"
)

_SEVERAL = re.compile(
    r"((?:const\s+)?(?:int|long|auto|(?:std::)?int(?:32|64)_t))\s+"
    r"(\w+\s*=\s*[\w.>()\[\]-]+(?:\s*,\s*\w+\s*=\s*[\w.>()\[\]-]+)+)\s*;"
)


def with_names(
    body: str, tensors: Sequence[str], known_names: Mapping[tuple[str, str], str] | None = None
) -> str:
    """The body of a function, its opening brace first, in which such sizes are declared first.

    Sizes that a statement of the body declares, as in int n = x.size(0), stay; so do those that
    only a check compares, and those whose extent `known_names` gives as a number or expression.
    The lines stay where they are.
    """
    known_names = known_names or {}
    if not tensors:
        return body
    asked = re.compile(rf"\b({'|'.join(map(re.escape, tensors))}){_ASKED}")
    body = _SEVERAL.sub(_each, body)
    statements = re.split(r"(?<=[;{}])", body)
    worked = [s for s in statements if not _CHECK.match(s)]
    declared = {k for s in worked for m in asked.finditer(s) if _declares(s, m) for k in [_key(m)]}
    wanted: dict[tuple[str, str], str] = {}
    sized = {m[1] for s in worked for m in asked.finditer(s) if m[4] is None}
    for statement in worked:
        for match in asked.finditer(statement):
            extent = known_names.get(_key(match)[:2], "name")
            known = _key(match) in declared or (match[4] and match[1] in sized)
            known = known or not re.fullmatch(r"[a-z_]\w*", extent)
            known = known or (match[4] and (match[1], "0") in known_names)
            if not known:
                wanted[_key(match)] = match[0]
    if not wanted:
        return body
    names = {key: known_names.get(key) or _name(*key) for key in wanted}
    made = {name for name in names.values() if re.search(rf"\b{name}\s*=[^=]", body)}
    first = {name: text for key, text in wanted.items() if (name := names[key]) not in made}
    lines = "".join(f" const int64_t {name} = {text};" for name, text in first.items())
    kept = asked.sub(lambda m: names.get(_key(m), m[0]), body[1:])
    return "{" + lines + kept


def _each(match: re.Match[str]) -> str:
    """int a = x.size(0), b = x.size(1); as a declaration each."""
    return " ".join(f"{match[1]} {one.strip()};" for one in match[2].split(","))


def _declares(statement: str, match: re.Match[str]) -> bool:
    """Whether the size is all that the statement's variable is, or is divided by a number."""
    before, after = statement[: match.start()], statement[match.end() :]
    return bool(_NAMED.match(before)) and bool(re.match(r"\)?\s*(/\s*\w+\s*)?;", after))


def _key(match: re.Match[str]) -> tuple[str, str]:
    return match[1], match[2] or match[3] or match[4]


def _name(tensor: str, size: str) -> str:
    return f"{tensor}_{size.replace('-1', 'last').replace('-', 'last_')}".lower()
