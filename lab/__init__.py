"""What only Astra's developers need; not installed. From a checkout: `python -m lab.soak`.

Astra itself, measured:
measure_astra       start-up, turns, judge, noise
measure_evaluations seconds of evaluations on a GPU, step by step
measure_interfaces  a new user's first judged kernel, by command, Python, MCP and mailbox
measure_calls       what a winner's call costs the host beside the GPU
measure_reports     a report by the length of its run
measure_transcripts long transcripts: read, exported, verified
measure_long_runs   a chat's own time by its length
measure_sweep       a sweep of a thousand drawn cases on a GPU
prompt_sizes        characters of prompts, by role

The judge, tried:
attack_kernels      the honest kernels and the attacks of tests/attacks, one archive each
soak                how often the judge rejects a correct kernel
planted             how many planted faults the judge catches
planted_faults      the faults: kernels wrong in one region of the legal domain
engine_rates        tokens a second of SGLang's engine with and without winners
gate_rates          how often a gate is wrong: false alarms, losses missed
module_problems     PyTorch modules of our own as tasks, beside PyTorch on a GPU
counters_beside_ncu CUPTI's counters beside Nsight Compute's
between_evaluations how far one kernel's ratios differ from one evaluation to the next

Scripted runs and their page:
results             docs/research/results.md from recorded runs
result_tables       its tables
paper_method        the paper's way of timing
estimates           the estimate of every scripted kernel

Live runs and their pages:
live_runs           live runs, with what GPUs say of their winners
live_results        docs/results.md from them, also beside the paper's figures
task_pages          docs/results/: a page a task
winners             a live run's winner: which it is, its source
judge_winners       live winners on a GPU, as a confirmation judges
live_estimates      estimates beside what a GPU said of live winners
winner_files        sources of the live winners, for a GPU machine
rivals              what engines launch today, as data (rivals.toml), and whether it still is so
over_today          live winners over what is launched today
side_by_side        its tables of winners and rivals timed in one run
run_picture         docs/run.svg: the rounds of one live run, for the README
decode_layer        one decode layer as a CUDA graph, with and without the winners
decode_step         its kernels and matrix products in serving order

Search:
measure_regret      the tuner beside an exhaustive measurement
regret              the spaces that it studies, what it found, and the table
compare_strategies  search strategies on equal budgets
memory_ablation     whether a memory of other tasks helps; not run yet
random_models       models that draw kernels at random, for it

Shared, and folders:
transcript_schema   transcripts/schema.json from the types
recordings          archives of recorded runs: packed, added to, unpacked
commands            what these commands share
judging_processes   judges side by side, each in a process of its own
walk_docs           docs/walked.md: the commands of the documentation, run
gallery             docs/gallery/: what Astra prints, and a report, as pictures
kernelbench         problems of KernelBench drawn by a seed, as tasks
rejudge/            published kernels of others, judged again
engine_tests/       SGLang's own tests with a package's winners and without
ranks/              kernels over several GPUs: contract, kernels, check and times
baselines/          SGLang's and FlashInfer's kernels beside ours
virtual_gpu/        the virtual GPU: speed, numerics, fuzzing; its estimate calibrated and validated
"""
