"""Dtypes of tensors, by the elements to which a function asks for a pointer when it is called."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

from astra_chat.tools.new.draft import Draft, Tensor
from astra_chat.tools.new.made_tensors import TORCH
from astra_chat.tools.types import Case, DTypeName

_ASKED = re.compile(r"^expects (\w+) (-?\d+)$", re.MULTILINE)


@dataclass(frozen=True)
class AskedDtypes:
    """What a launcher said in one call of a case (build/extension_sources/memory.h)."""

    case: Case
    said: str

    def of(self, tensor: Tensor) -> DTypeName | None:
        """The dtype that the function asks for, where the tensor has another."""
        found = {name: TORCH.get(int(kind)) for name, kind in _ASKED.findall(self.said)}
        return found.get(tensor.name)


def with_asked_dtypes(draft: Draft, calls: Sequence[AskedDtypes]) -> Draft:
    """The draft with tensors of the dtypes that its function asks for.

    A tensor of the case's dtype becomes one of another only if some tensor stays as it is in the
    same cases: if all are asked for in one dtype, the function takes no other.
    """
    tensors = []
    for tensor in draft.tensors:
        asking = [call for call in calls if call.of(tensor)]
        wanted = {dtype for call in asking if (dtype := call.of(tensor))}
        if wanted and all(call.of(tensor) == call.case.dtype for call in asking):
            tensor = replace(tensor, dtype=next(iter(draft.variables), tensor.dtype))
        elif len(wanted) == 1 and _another_stays(draft, tensor, asking):
            tensor = replace(tensor, dtype=wanted.pop())
        tensors.append(tensor)
    return replace(draft, tensors=tuple(tensors))


def _another_stays(draft: Draft, tensor: Tensor, asking: Sequence[AskedDtypes]) -> bool:
    """Whether another tensor of the same type variable is taken as it is in these calls."""
    if tensor.dtype not in draft.variables:
        return True
    alike = [t for t in draft.tensors if t.dtype == tensor.dtype and t.name != tensor.name]
    return any(not any(call.of(one) for call in asking) for one in alike)
