"""What the commands of this folder share."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from astra_chat.tools.recordings.reading import expanded, read_recorded
from astra_vgpu.ground.errors import AstraError, BadInput

M = TypeVar("M", bound=BaseModel)


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


def read_document(path: Path, schema: str, model: type[M], what: str) -> M:
    """Returns a recorded document whose field `schema` names this schema. Raises BadInput, which
    says that the file contains no `what`."""
    try:
        found = json.loads(read_recorded(path))
        if found.pop("schema") != schema:
            raise BadInput(f"{path} has another schema than {schema}")
        return model.model_validate(found)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, ValidationError) as error:
        raise BadInput(f"{path} contains no {what}: {type(error).__name__}") from None
