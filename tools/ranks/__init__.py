"""Kernels over several GPUs (docs/several-gpus.md): the judge's steps on a group of ranks.

judge       RanksJudge: the calls of any judge; judge_of chooses by the task
evaluating  the steps of one evaluation
groups      how many ranks a judge has on its device
checks      the check: cases, groups of processes, what they found
plans       the launch plan of each rank
requests    what each rank of a group is asked
signals     scope and order of signals in PTX; how often a rank waits
times       times beside the baseline, measured or estimated
group       a process a rank, watched: a dead or late one ends all
"""
