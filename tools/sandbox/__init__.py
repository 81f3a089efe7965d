"""Sandbox for processes that build or run a candidate: bubblewrap, Landlock, seccomp, limits.

policy     which files, devices and limits a child gets; wraps its command
isolation  which isolation this machine has: bubblewrap, Landlock, seccomp
launch     applies the sandbox, limits and privileges inside the child, then becomes the command
fork_server  starts processes that have their modules loaded, each in its sandbox
ready      waits for files that can be read
landlock   Landlock by system call: file access
seccomp    seccomp filters; `lock` removes fork, exec and more before a candidate is loaded

None of it needs root.
"""
