"""What instructions compute here and on a GPU.

`python -m astra_chat.tools.virtual_gpu.devtools numerics`

instructions.py  what is tried, and NVIDIA's bounds    program.py  a CUDA program of all of it
inputs.py        what it is tried on                   ulps.py     how far two results are apart
reference.py     what an H200 answered, kept           report.py   the table, the command
"""
