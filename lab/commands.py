"""What the commands of this folder share."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path

from astra_chat.tools.recordings.reading import expanded
from astra_vgpu.ground.errors import AstraError


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Bad input, missing dependencies and Ctrl-C end the command with one line and their exit
    code."""
    try:
        yield
    except AstraError as error:
        print(f"astra-chat: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        print("astra-chat: interrupted", file=sys.stderr)
        sys.exit(130)


@one_line_errors()
def print_document(made: Callable[[Iterable[Path]], str]) -> None:
    """What is made of the files that the command line names; bad input is one line."""
    print(made(expanded(map(Path, sys.argv[1:]))))
