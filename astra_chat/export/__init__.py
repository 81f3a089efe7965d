"""Recorded runs as data for other programs: `astra-chat export`.

filters          which evaluations are taken
chats            chat examples for fine-tuning (sft), and steps with a reward (rl)
arrow            rows as a Parquet file
flashinfer_bench Definition, Solution and Trace of flashinfer-bench
fib_binding      the C++ by which flashinfer-bench calls a launcher
writing          output files, whole or not at all
command          the command
"""
