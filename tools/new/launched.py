"""Which tensors launches read and write: by the PTX of what the recorded plans launch."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace

from astra_chat.tools.new.draft import KEPT, Draft, Tensor
from astra_chat.tools.plan.model import (
    ArgumentAddress,
    CopyNode,
    KernelNode,
    LaunchPlan,
    MemsetNode,
    PointerRelocation,
)
from astra_chat.tools.virtual_gpu.adapter import (
    loaded_parameters,
    stored_parameters,
    with_kernels,
)

_ACCESS = re.compile(r"is it only read|^\"(write|readwrite)\" if|^it is given to")
"""Doubts that plans settle."""
_TABLE = re.compile(r" = \{[\d, ]+\}(?=;)")
"""Numbers of a table: a file may have 50,000, and no address is among them."""
Touched = tuple[set[str], set[str]]
"""Names of the arguments that one node reads, and that it writes."""


def accesses_of(plans: Sequence[LaunchPlan], ptx: str) -> dict[str, str]:
    """read, write or readwrite of each argument that a launch touches. What a plan writes before it
    reads it is no input."""
    launched = {n.kernel for plan in plans for n in plan.nodes if isinstance(n, KernelNode)}
    ptx = _TABLE.sub("", with_kernels(ptx, launched))
    known: dict[str, Touched] = {}
    reads, writes = set[str](), set[str]()
    for plan in plans:
        filled = set[str]()
        for read, written in _touched(plan, ptx, known):
            reads |= read - filled
            writes |= written
            filled |= written - read
    return {
        name: ("readwrite" if name in reads else "write") if name in writes else "read"
        for name in reads | writes
    }


def _touched(plan: LaunchPlan, ptx: str, known: dict[str, Touched]) -> Iterator[Touched]:
    for node in plan.nodes:
        match node:
            case MemsetNode(target=target):
                yield set(), {target.name}
            case CopyNode(target=target, source=source):
                yield {source.name}, {target.name}
            case KernelNode():
                yield _by_kernel(node, ptx, known)


def _by_kernel(node: KernelNode, ptx: str, known: dict[str, Touched]) -> Touched:
    if node.kernel not in known:
        own = with_kernels(ptx, {node.kernel})
        offsets = loaded_parameters(own, node.kernel), stored_parameters(own, node.kernel)
        known[node.kernel] = ({str(at) for at in offsets[0]}, {str(at) for at in offsets[1]})
    loaded, stored = known[node.kernel]
    pointers = [
        (str(r.at), r.to.name)
        for r in node.relocations
        if isinstance(r, PointerRelocation) and isinstance(r.to, ArgumentAddress)
    ]
    read = {name for at, name in pointers if at in loaded}
    return read, {name for at, name in pointers if at in stored}


def with_accesses(draft: Draft, accesses: Mapping[str, str]) -> Draft:
    """The draft's tensors as launches use them."""
    return replace(draft, tensors=tuple(_with_access(t, accesses) for t in draft.tensors))


def _with_access(tensor: Tensor, accesses: Mapping[str, str]) -> Tensor:
    access = accesses.get(tensor.name)
    if access is None or tensor.access == "workspace":
        return tensor
    doubts = tuple(doubt for doubt in tensor.doubts if not _ACCESS.search(doubt))
    if access == "write" and KEPT.search(tensor.name):
        access, doubts = "readwrite", (*doubts, '"write" if every element of it is written')
    return replace(tensor, access=access, doubts=doubts)
