"""Evaluations as files, judged on another machine: the chat here, the GPU there; without AutoGen.

jobs     one evaluation that is asked for, by value: job.json and the texts that it names
results  what came of a job: result.json or refused.json, and which of them count
claims   which worker judges a job, so that no other does
asking   the judge of a run whose evaluations are jobs
worker   judges the jobs under a folder; keeps judges from one job to the next
side_by_side  several workers of one GPU
packing  jobs and results as one file, to be carried
carrying  has jobs judged by ssh or Ray while the run waits
answering  the other end: judges what comes on stdin
ray_client  jobs to the workers of a Ray cluster, in a process of its own
ray_worker  one of them: an actor with a GPU to itself
"""
