"""What several tests of a session's results take."""

from __future__ import annotations

from pathlib import Path

import pytest

from astra_chat.session.export import export_best
from astra_chat.tools.task.folder import find_task


@pytest.fixture(scope="package")
def best(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder best/ of silu_and_mul's baseline; nobody writes to it."""
    task, folder = find_task("silu_and_mul"), tmp_path_factory.mktemp("run") / "best"
    export_best(task, task.baseline, folder, arch="sm_90")
    return folder
