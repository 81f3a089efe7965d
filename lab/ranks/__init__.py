"""Kernels over several GPUs: a contract, kernels, and a judge for them. `python -m lab.ranks`.

contract    ranks.toml: what each rank holds before and after a call, and the launcher's contract
plans       guard, build, audit, and the launch plan of each rank
messages    what ranks are asked and what they report
group       a process a rank, watched: a dead or late one ends all
judging     an evaluation: plans, the check on all ranks, times beside NCCL
faults      planted faults, and whether they are found
inside/     the program of one rank
allreduce_add_rmsnorm/  the first task: its contract, reference, baseline and two faster kernels
"""
