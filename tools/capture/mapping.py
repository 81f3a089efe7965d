"""Which parameter of an operator is which argument, dim or scalar of a contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from astra_chat.tools.capture.calls import SeenCall, SeenOperator
from astra_chat.tools.task.domain import Domain
from astra_vgpu.ground.errors import BadInput


@dataclass(frozen=True)
class Names:
    """The parameters of an operator, as its calls name them, by what they hold."""

    tensors: tuple[str, ...]
    """In the operator's order; results are behind the arguments."""
    others: tuple[str, ...]


def names_of(operator: SeenOperator) -> Names:
    """What its calls pass and return. A parameter that is None in all calls is no tensor."""
    tensors, others = dict[str, None](), dict[str, None]()
    for call in operator.calls:
        tensors |= dict.fromkeys(_in_order(call, operator.declared))
        others |= dict.fromkeys(call.values)
    results = {name: None for call in operator.calls for name in new_results(call)}
    return Names((*tensors, *results), tuple(name for name in others if name not in tensors))


def new_results(call: SeenCall) -> list[str]:
    """Results that are no arguments again."""
    places = {(t.buffer, t.offset_bytes, t.shape) for t in call.tensors.values()}
    return [n for n, t in call.results.items() if (t.buffer, t.offset_bytes, t.shape) not in places]


def _in_order(call: SeenCall, declared: str) -> list[str]:
    """A call's tensors in the order in which they are declared, those passed by name too."""
    words = declared.replace("(", " ").replace(",", " ").replace(":", " ").replace(")", " ").split()
    places = {word: at for at, word in reversed(list(enumerate(words)))}
    return sorted(call.tensors, key=lambda name: places.get(name.partition("[")[0], len(words)))


def parse_map(texts: Sequence[str]) -> dict[str, str]:
    """ "x=input" of --map: the contract's name, then the operator's. Raises BadInput."""
    pairs = [text.partition("=") for text in texts]
    for text, (name, equals, parameter) in zip(texts, pairs, strict=True):
        if not (name and equals and parameter):
            raise BadInput(f"--map {text}: write NAME=PARAMETER, the contract's name first")
    return {name: parameter for name, _, parameter in pairs}


def mapped(
    domain: Domain,
    operator: SeenOperator,
    given: Mapping[str, str],
    binding: Sequence[str | None] = (),
) -> dict[str, str]:
    """Parameters by the contract's names: as `given`, else of one name, else in one order.
    `binding` names what the task's launcher passes for each parameter. Raises BadInput."""
    names, found = names_of(operator), dict(given)
    _require_known(domain, names, given)
    tensors = [arg.name for arg in domain.args if arg.access != "workspace"]
    for name in (*tensors, *domain.dims, *(s.name for s in domain.scalars)):
        if name in names.tensors + names.others and name not in found:
            found[name] = name
    left = [n for n in tensors if n not in found]
    free = [name for name in names.tensors if name not in found.values()]
    if operator.shapes_only and len(left) > len(free):
        written = {arg.name for arg in domain.args if arg.access == "write"}
        left = [name for name in left if name not in written]
    if binding and len(binding) == len(names.tensors):
        pairs = zip(binding, names.tensors, strict=True)
        found |= {name: p for name, p in pairs if name in left and p in free}
    elif len(left) == len(free):
        found |= dict(zip(left, free, strict=True))
    optional = {arg.name for arg in domain.args if arg.optional}
    if lacking := [name for name in left if name not in found and name not in optional]:
        raise BadInput(
            f"{operator.name}: which of its tensors ({', '.join(free) or 'none is left'}) is"
            f" '{lacking[0]}' in the contract? Answer with --map {lacking[0]}=PARAMETER"
        )
    return found


def _require_known(domain: Domain, names: Names, given: Mapping[str, str]) -> None:
    known = {*(a.name for a in domain.args), *domain.dims, *(s.name for s in domain.scalars)}
    for name, parameter in given.items():
        if name not in known:
            raise BadInput(f"--map {name}={parameter}: the contract has no '{name}'")
        if parameter not in names.tensors + names.others:
            some = ", ".join(names.tensors + names.others)
            raise BadInput(f"--map {name}={parameter}: the operator has no '{parameter}': {some}")
