"""`astra-chat cache`: what builds left for the next time, and how much room it takes."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated

import typer

from astra_chat.cli.options import JsonOption

if TYPE_CHECKING:
    from astra_vgpu.ground.cache_size import Entry

SCHEMA = "astra-chat/cache/1"


cache_app = typer.Typer(help="Show the build cache, or clear it.", no_args_is_help=True)


def register(app: typer.Typer) -> None:
    app.add_typer(cache_app, name="cache")


@cache_app.command()
def info(as_json: JsonOption = False) -> None:
    """Show where the build cache is, how large it is, and its limit."""
    from astra_vgpu.ground.cache_size import LIMIT_VARIABLE, cache_root, entries, limit_bytes

    every, limit = entries(), limit_bytes()
    kinds = {kind: [one for one in every if one.kind == kind] for kind in _kinds(every)}
    if as_json:
        sizes = {kind: _numbers(found) for kind, found in kinds.items()}
        head = {"schema": SCHEMA, "folder": str(cache_root()), "limit_bytes": limit}
        print(json.dumps({**head, **_numbers(every), "kinds": sizes}, indent=2))
        return
    print(f"{cache_root()}: limit {_size(limit)} (set {LIMIT_VARIABLE} to change it)")
    for name, found in [*kinds.items(), ("total", every)]:
        using = sum(one.in_use for one in found)
        size = _size(sum(one.size_bytes for one in found))
        print(
            f"  {name:<12} {len(found):>6} entries {size:>10}" + f", {using} in use" * (using > 0)
        )


@cache_app.command()
def clear(
    to: Annotated[
        str,
        typer.Option(
            "--to",
            metavar="SIZE",
            help="Delete the least recently used files until the cache is at most this large.",
        ),
    ] = "0",
    as_json: JsonOption = False,
) -> None:
    """Clear the build cache, except for what a running command uses."""
    from astra_vgpu.ground.cache_size import entries, parse_size, shrink

    removed = shrink(parse_size(to, "--to"))
    left = entries()
    if as_json:
        gone = {"removed_entries": removed.entries, "removed_bytes": removed.size_bytes}
        print(json.dumps({"schema": SCHEMA, **gone, **_numbers(left)}, indent=2))
        return
    size = _size(sum(one.size_bytes for one in left))
    print(f"removed {removed.entries} entries, {_size(removed.size_bytes)}; {size} left")


def _kinds(every: Iterable[Entry]) -> list[str]:
    return sorted({one.kind for one in every})


def _numbers(found: list[Entry]) -> dict[str, int]:
    return {
        "entries": len(found),
        "size_bytes": sum(one.size_bytes for one in found),
        "in_use": sum(one.in_use for one in found),
    }


def _size(size_bytes: int) -> str:
    """Returns a number of bytes as a person reads it: 12.3 MiB."""
    value = float(size_bytes)
    for unit in ("B", "KiB", "MiB"):
        if value < 1024:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} GiB"
