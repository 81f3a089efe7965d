"""A Model Context Protocol server over stdio: the program's functions as typed tools. It needs the
extra `mcp`.

server  the tools
jobs    evaluations in the background, one at a time
"""
