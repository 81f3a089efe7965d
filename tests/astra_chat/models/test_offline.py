"""What stands behind a recording answers nothing."""

from __future__ import annotations

import asyncio

import pytest

from astra_chat.models.offline import OfflineClient


def test_it_cannot_be_asked() -> None:
    client = OfflineClient()
    with pytest.raises(RuntimeError, match="cannot ask a model"):
        asyncio.run(client.create([]))
    asyncio.run(client.close())
    assert client.total_usage() == client.actual_usage()
