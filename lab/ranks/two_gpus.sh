#!/bin/sh
# For a machine with two GPUs: both faster kernels judged and timed, and planted faults, in 150 s.
# From the root of a checkout, with the Python of the argument: lab/ranks/two_gpus.sh python OUT
set -u
python=$1 out=$2
here=lab/ranks/allreduce_add_rmsnorm
export PYTHONPATH=$PWD:$PWD/tools/virtual_gpu
for kernel in push pull; do
  timeout 70 "$python" -m lab.ranks evaluate $here/$kernel.cu --ranks 2 --json "$out/$kernel.json"
  echo "exit code $?"
done
for fault in "no barrier after" killed "signals nobody"; do
  timeout 50 "$python" -m lab.ranks faults --ranks 2 --calls 200 --only "$fault"
  echo "exit code $?"
done
