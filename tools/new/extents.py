"""Numbers that differ from case to case as expressions of the cases' dims."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Mapping, Sequence

from astra_chat.tools.task.expressions import evaluate

FACTORS = (2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


def extent_of(values: Sequence[int], dims: Sequence[Mapping[str, int]]) -> str | None:
    """The simplest expression that has these values where the dims are so; None where none does.
    A number that is always the same is a number, even where a dim has it too."""
    if len(set(values)) == 1 and len({tuple(one.items()) for one in dims}) > 1:
        return str(values[0])
    for text in expressions(list(dims[0]) if dims else []):
        if all(evaluate(text, one) == value for value, one in zip(values, dims, strict=True)):
            return text
    return None


def expressions(names: Sequence[str]) -> Iterator[str]:
    """From the simplest on."""
    yield from names
    for name in names:
        yield from (f"{name}*{factor}" for factor in FACTORS)
        yield from (f"ceil_div({name}, {factor})" for factor in FACTORS)
        yield from (f"{name} + {step}" for step in (1, 2))
    for one, other in itertools.combinations_with_replacement(names, 2):
        yield f"{one}*{other}"
    for one, other in itertools.permutations(names, 2):
        yield f"ceil_div({one}, {other})"
        yield f"{one} - {other}"
    for one, other in itertools.combinations(names, 2):
        yield f"{one} + {other}"
        yield from (f"{one}*{other}*{factor}" for factor in FACTORS)
        yield from (f"ceil_div({one}, {factor})*{other}" for factor in FACTORS)
        yield from (f"{one}*ceil_div({other}, {factor})" for factor in FACTORS)
    for chosen in itertools.combinations(names, 3):
        yield "*".join(chosen)
        yield " + ".join(chosen)
    for one in names:
        for chosen in itertools.combinations([name for name in names if name != one], 3):
            yield f"({' + '.join(chosen)})*{one}"
