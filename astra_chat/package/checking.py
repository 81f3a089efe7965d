"""`astra-chat package DIR --check`: a package beside the engine that is installed."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from astra_chat.package.folder import MODULE, SCHEMA
from astra_vgpu.ground.errors import BadInput


def check_installed(package: Path, python: Path | None) -> int:
    """Print what the engine of a Python hooks with this package on its path; the exit code. Raises
    BadInput for what is no package."""
    with unpacked(package) as site:
        paths = [str(site), *filter(None, [os.environ.get("PYTHONPATH")])]
        command = [str(python or sys.executable), "-m", MODULE, "check"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        try:
            return subprocess.run(command, env=env, check=False).returncode
        except OSError as error:
            raise BadInput(f"cannot start {command[0]}: {error.strerror}") from None


@contextmanager
def unpacked(package: Path) -> Iterator[Path]:
    """A folder with the modules of a package: of its folder or its wheel. Raises BadInput for what
    is no package."""
    wheels = [package] if package.suffix == ".whl" else sorted((package / "dist").glob("*.whl"))
    if len(wheels) != 1 or not wheels[0].is_file():
        raise BadInput(f"{package} is not a plugin package: dist/ must contain exactly one wheel")
    with tempfile.TemporaryDirectory(prefix="astra-package-") as site:
        try:
            with zipfile.ZipFile(wheels[0]) as archive:
                archive.extractall(site)
        except zipfile.BadZipFile:
            raise BadInput(f"{wheels[0]} is not a wheel") from None
        yield Path(site)


def packaged(package: Path) -> dict[str, Any]:
    """winners.json of a package. Raises BadInput for what is no package."""
    with unpacked(package) as site:
        try:
            found = json.loads((site / MODULE / "winners.json").read_text())
        except (OSError, ValueError):
            raise BadInput(f"{package} is not a plugin package: it has no winners.json") from None
    if not isinstance(found, dict) or found.get("schema") != SCHEMA:
        raise BadInput(f"{package} is not a plugin package of this version")
    return found
