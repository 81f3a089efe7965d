"""The chat's fixtures. No test takes settings from the file of whoever runs it."""

import os
import tempfile
from pathlib import Path

from tests.astra_chat.commands import command
from tests.chat_samples import fixed_judge, task, task_folder

os.environ["XDG_CONFIG_HOME"] = str(Path(tempfile.gettempdir()) / "astra-tests-without-settings")

__all__ = ["command", "fixed_judge", "task", "task_folder"]
