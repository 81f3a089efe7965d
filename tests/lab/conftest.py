"""The fixtures of the chat's tests."""

from tests.chat_samples import fixed_judge, task, task_folder

__all__ = ["fixed_judge", "task", "task_folder"]
