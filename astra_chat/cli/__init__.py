"""The command astra-chat: one file a command.

main     the application: every command by name
run      begin or continue a run
approve  decide for a run that waits
judge    check, time, profile, and what they print
beside_torch  a kernel beside the PyTorch module of its task
tune     the constants of a kernel chosen, without a model
gate     a changed kernel beside the old one, for CI
judge_jobs  judge work: jobs of runs on other machines
advance  resume the runs whose results are there
campaign  many runs by one file
models   models check
memory   the cards of confirmed runs: added, listed, shown
config   the settings files: shown and changed
setting_defaults  how commands take settings
mailbox  the questions of runs with a mailbox, and their answers
skill    a SKILL.md for coding agents
mcp      a server for MCP clients
new      draft a task from a kernel
optimize  from a kernel file of the user's repository to a patch
capture  the calls of an operator in the user's own program
captured_calls  options of commands that take captured calls
replay   a recorded run shown, judged or run again
tasks    list, show and check tasks
doctor   what this machine can do, shown
diagnosis  what it can do, and how to get what is missing
cache    the build cache: its size, and clearing it

options     options as typer has them, and those that several commands share
kernel_text  the text of a file or of stdin
reproduce   the command that shows a failure again
exit_codes  what an exit code says; a failure as one line
streams     stdout and stderr whose reader may go away
"""

import astra_chat.tools  # noqa: F401  # says so where astra-vgpu is missing
