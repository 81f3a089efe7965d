"""Walls round processes that build or run a candidate: bubblewrap, Landlock, seccomp, limits.

`walls` says what a child may reach and wraps its command, `launch` puts the walls up inside the
child before it becomes the command, `seccomp.lock` takes away fork, exec and the rest just before a
candidate's code is loaded. `level` says what this machine has. None of it needs root.
"""
