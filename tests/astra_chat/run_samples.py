"""Requests of runs, for tests."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from astra_chat.models.open_models import open_models
from astra_chat.session.request import Request
from astra_chat.tools.task.folder import Task
from tests.chat_samples import DEVICE, run_options


def chat_request(task: Task, folder: Path, **changes: Any) -> Request:
    """Returns the request of a run on the virtual GPU, by the task's script, with these changes."""
    changes.setdefault("device", DEVICE)
    changes.setdefault("options", run_options())
    if "models" not in changes:
        changes["models"] = open_models("scripted", task)
    return Request(task=task, folder=folder, **changes)
