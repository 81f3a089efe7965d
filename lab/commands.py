"""What the commands of this folder share."""

from __future__ import annotations

import os
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
        sys.stdout.flush()
    except AstraError as error:
        print(f"astra-chat: {error}", file=sys.stderr)
        sys.exit(error.exit_code)
    except BrokenPipeError:  # whoever read it has gone, as `| head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    except KeyboardInterrupt:
        print("astra-chat: interrupted", file=sys.stderr)
        sys.exit(130)


@one_line_errors()
def print_document(made: Callable[[Iterable[Path]], str]) -> None:
    """What is made of the files that the command line names; bad input is one line, and --help says
    what the files are."""
    if {"-h", "--help"} & set(sys.argv[1:]):
        print((sys.modules["__main__"].__doc__ or "").strip())
        return
    print(made(expanded(map(Path, sys.argv[1:]))))
