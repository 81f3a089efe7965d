"""For developers of the virtual GPU only, not in the wheel: `python -m` this package.

bench        how long kernels take on the virtual GPU
fuzz         mutated PTX against parser and translators
validate     how good the estimate is
numerics/    both engines against an H200's results
validation/  the kernels and times that `validate` reads
"""
