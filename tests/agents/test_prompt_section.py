"""A section as a prompt shows it."""

from __future__ import annotations

from astra_chat.agents.prompt_section import Section


def test_a_section_is_a_heading_and_its_text() -> None:
    assert str(Section("Task", "Sum.\n\n")) == "## Task\nSum.\n"
    assert Section("Task", "Sum.").drop_rank == 0, "never left out"
