"""For developers of the virtual GPU only, not in the wheel: `python -m` this package.

bench        how fast the virtual GPU builds and runs kernels
constant_words  cycles of constant loads by different words, on a GPU (`constants`)
fuzz         mutated PTX against the parser and both engines' translators
validate     error of the time estimate over kernels that it was not fitted to
numerics/    results of both engines against those of an H200
calibration/ constants of the time estimate, and the kernels and times that they are fitted to
validation/  the kernels and measured times that `validate` reads
kernels.tar.xz  CUDA sources of all sets. To change one: `tar -xf kernels.tar.xz` here, edit it, and
             `tar -cf - */kernels */*/kernels | xz -9e > kernels.tar.xz`
recorded.tar.xz  times and counters of all sets, to be read as any archive of recordings
"""
