"""Names of a draft as contracts have them: of small letters, where C++ has A, N or numTokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace

from astra_chat.tools.new.c_launcher import contract_name
from astra_chat.tools.new.draft import Draft, Tensor

_VALID = re.compile(r"[a-z_][a-z0-9_]*", re.ASCII)


def with_valid_names(draft: Draft) -> Draft:
    """The draft under names that a contract may have; [binding] passes the same by position."""
    names = [t.name for t in draft.tensors] + [*draft.dims] + [s.name for s in draft.scalars]
    if not (renamed := _renamed(names)):
        return draft

    def text(expression: str) -> str:
        return _text(expression, renamed)

    return replace(
        draft,
        tensors=tuple(_tensor(tensor, renamed) for tensor in draft.tensors),
        dims=tuple(map(text, draft.dims)),
        scalars=tuple(replace(s, name=text(s.name)) for s in draft.scalars),
        multiples={text(dim): number for dim, number in draft.multiples.items()},
        notes={text(dim): note for dim, note in draft.notes.items()},
        extents={text(dim): all_ for dim, all_ in draft.extents.items()},
        require=tuple(map(text, draft.require)),
        binding={
            key: _passed(value, renamed) if key in ("args", "returns") else value
            for key, value in draft.binding.items()
        },
    )


def _renamed(names: Iterable[str]) -> dict[str, str]:
    taken = {name for name in names if _VALID.fullmatch(name)}
    found: dict[str, str] = {}
    for name in dict.fromkeys(names):
        if name not in taken and name not in found:
            own = contract_name(name)
            while own in taken:
                own += "_"
            taken.add(own)
            found[name] = own
    return found


def _text(expression: str, renamed: Mapping[str, str]) -> str:
    return re.sub(r"[A-Za-z_]\w*", lambda m: renamed.get(m[0], m[0]), expression)


def _tensor(tensor: Tensor, renamed: Mapping[str, str]) -> Tensor:
    shape, strides = (
        tuple(_text(one, renamed) for one in extents) for extents in (tensor.shape, tensor.strides)
    )
    return replace(tensor, name=_text(tensor.name, renamed), shape=shape, strides=strides)


def _passed(value: object, renamed: Mapping[str, str]) -> object:
    if isinstance(value, str):
        return renamed.get(value, value)
    if isinstance(value, list | tuple):
        return [_passed(one, renamed) for one in value]
    if isinstance(value, Mapping):
        return {k: _passed(v, renamed) if k == "tensors" else v for k, v in value.items()}
    return value
