"""The machine: processes, devices, locks, files, set-up.

reporter      a child's end of the pipe to its judge
subprocesses  child processes: environment, limits, and a kill that reaches the group
forked        processes that a server forks, and the server's judge's end
process_tree  memory and processor time of a process and all below it
memory_watch  how much memory a child holds, with all that it started
cores         how many this process may use
devices       which device a run uses: a real GPU by NVML, else the virtual one
gpu_lock      one GPU, one measurement: a lock that all Astra processes see
gpu_use       how long a judge held that lock and waited for it; NVML about that time
files         a file written whole, locked, or opened though it may be anybody's
background    work begun before it is needed; folders removed while others work
setup_env     makes .venv complete (`make setup`)
"""
