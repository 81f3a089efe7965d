"""The estimate against times measured on a GPU, over kernels that it was never tuned on."""
