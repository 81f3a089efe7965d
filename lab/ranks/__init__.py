"""Research on kernels over several GPUs; `astra-chat` judges them (docs/several-gpus.md).

python -m lab.ranks rivals    times beside NCCL, PyTorch's symmetric memory and SGLang's all-reduce
python -m lab.ranks soak      10^5 calls of signal reuse, each compared on the device
python -m lab.ranks faults    planted faults, and whether they are found

faults      planted faults
measuring   times beside rivals, and soaks
messages    what the programs of ranks are asked beyond the judge's own
inside/     their programs
"""
