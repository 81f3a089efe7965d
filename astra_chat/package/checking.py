"""`astra-chat package DIR --check`: a package beside the engine that is installed."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

from astra_chat.package.folder import MODULE
from astra_vgpu.ground.errors import BadInput


def check_installed(package: Path, python: Path | None) -> int:
    """Print what the engine of a Python hooks with this package on its path; the exit code. Raises
    BadInput for what is no package."""
    wheels = [package] if package.suffix == ".whl" else sorted((package / "dist").glob("*.whl"))
    if len(wheels) != 1 or not wheels[0].is_file():
        raise BadInput(f"{package} is not a plugin package: dist/ must contain exactly one wheel")
    with tempfile.TemporaryDirectory(prefix="astra-check-") as site:
        try:
            with zipfile.ZipFile(wheels[0]) as archive:
                archive.extractall(site)
        except zipfile.BadZipFile:
            raise BadInput(f"{wheels[0]} is not a wheel") from None
        paths = [site, *filter(None, [os.environ.get("PYTHONPATH")])]
        command = [str(python or sys.executable), "-m", MODULE, "check"]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(paths)}
        try:
            return subprocess.run(command, env=env, check=False).returncode
        except OSError as error:
            raise BadInput(f"cannot start {command[0]}: {error.strerror}") from None
