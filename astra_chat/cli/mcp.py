"""`astra-chat mcp`: a Model Context Protocol server on stdin and stdout."""

from __future__ import annotations

import sys
from importlib.util import find_spec

import typer

from astra_chat.cli.options import TrustOption
from astra_chat.display.notes import note
from astra_vgpu.ground.errors import BadInput, MissingDependency

INSTALL = "pip install 'astra-chat[mcp]'"


def register(app: typer.Typer) -> None:
    app.command(short_help="Serve tools to an MCP client on stdin and stdout.")(mcp)


def mcp(trust: TrustOption = False) -> None:
    """Serve tools to an MCP client on stdin and stdout: evaluate, tasks, mailbox, runs."""
    if find_spec("mcp") is None or find_spec("mcp.server.mcpserver") is None:
        raise MissingDependency(f"the MCP SDK, version 2 or newer, is not installed: {INSTALL}")
    if sys.stdin.isatty():
        raise BadInput(
            "mcp is not meant to be run in a terminal: configure an MCP client to start it"
        )
    note("loading the MCP server")
    from astra_chat.mcp.server import serve

    note("ready: serving the client on stdin and stdout")
    serve(trust)
