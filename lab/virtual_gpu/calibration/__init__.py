"""Constants of the time estimate, fitted to times that one H200 took.

calibrate  the constants: sets of kernels, counters of each, the fit (`calibrate count`, `fit`)
tasks      the estimate against the judge's measurements of three tasks
intervals  the interval of a ratio of estimates; its figures in docs/research/estimate.md
outputs    results of three tasks' kernels on a GPU and on the virtual one, bit for bit

Data: kernels.cu beside measure.cu; mechanisms/, general/, varied/, mixed/ and served/, sets in the
form of validation/, with kernels in ../kernels.tar.xz. Times and counters of each, and what was
measured of tasks (judged.jsonl), are members of ../recorded.tar.xz.
"""
