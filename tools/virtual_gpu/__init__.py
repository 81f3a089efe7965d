"""The virtual GPU, a product of its own: distribution astra-vgpu, package astra_vgpu (README.md).

adapter      what the judge uses of it: launches, counters, estimates
astra_vgpu/  the package; it knows of nothing outside this folder
tests/       its tests

`python -m astra_chat.tools.virtual_gpu` is its old name, for one more release.
"""
