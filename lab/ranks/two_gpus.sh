#!/bin/sh
# For a machine with two GPUs: a kernel judged and timed, planted faults, then the other kernel.
# From the root of a checkout: lab/ranks/two_gpus.sh PYTHON FOLDER-FOR-EVALUATIONS
set -u
python=$1 out=$2
kernels=lab/ranks/allreduce_add_rmsnorm
export PYTHONPATH=$PWD:$PWD/tools/virtual_gpu
judge() { timeout 90 "$python" -m lab.ranks "$@" --ranks 2; echo "exit code $?"; }
judge evaluate $kernels/push.cu --json "$out/push.json"
judge evaluate $kernels/pull.cu --json "$out/pull.json" --calls 200
for fault in "no barrier after" killed "signals nobody"; do
  judge faults --calls 200 --only "$fault"
done
