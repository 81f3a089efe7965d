"""Lines of older format versions in the present one: kinds, fields and values under their present
names. A file may hold both, since a resumed run appends to an old one."""

from __future__ import annotations

from typing import Any

KINDS = {
    "spoken": "message",
    "repaired": "rejected_reply",
    "doubted": "contradiction",
    "asked": "model_call",
}
"""Kinds of events of version 1 with other names in version 2, and these."""


def migrated(line: Any) -> Any:
    """A parsed line of version 1 as one of version 2. Anything else comes back unchanged: whoever
    validates it reports what is wrong."""
    if not isinstance(line, dict) or line.get("v") != 1:
        return line
    event = line.get("event")
    if not isinstance(event, dict):
        return line
    event = _renamed_limiters(event)
    if isinstance(kind := event.get("kind"), str):
        event["kind"] = KINDS.get(kind, kind)
    payload = event.get("payload")
    if isinstance(payload, dict) and payload.get("kind") == "commission":
        event["payload"] = {**payload, "kind": "request"}
    if event.get("kind") == "spent" and "doubted" in event:
        event["contradictions"] = event.pop("doubted")
    return {**line, "v": 2, "event": event}


def _renamed_limiters(value: Any) -> Any:
    """A copy in which starting blocks limits under its present name, in profiles and times."""
    match value:
        case dict():
            return {
                key: "block_start"
                if key in ("limiter", "bottleneck") and one == "launch"
                else _renamed_limiters(one)
                for key, one in value.items()
            }
        case list():
            return [_renamed_limiters(one) for one in value]
        case _:
            return value
