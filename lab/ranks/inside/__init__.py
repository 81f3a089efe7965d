"""Programs of ranks: processes of their own, which may load torch.

program   the program: times beside rivals, or a soak
rivals    the same work by NCCL, PyTorch's symmetric memory and SGLang's custom all-reduce
soak      many calls, compared on the device
"""
