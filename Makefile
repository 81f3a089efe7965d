# make demo, test, test-all, test-virtual-gpu, soak, check or gpu; each first sets up .venv, once. PYTHON=python3.12 picks another Python.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
# Some containers forbid Python to keep what it compiled: a third of what a process needs to start.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: demo test test-all test-virtual-gpu soak check gpu setup clean

# Two of the recorded run's four rounds: the others gain 1 %, and each takes as long.
demo: $(READY)
	$(BIN)/astra-chat run silu_and_mul --rounds 2

# Every test once, with one of its parameters.
test: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --tier first

# Both tiers, by files: what a file's tests share is made once. The files that take longest come first.
test-all: $(READY)
	$(BIN)/python -m pytest -n auto --dist loadfile --no-loadscope-reorder --tier both

# Both tiers of the virtual GPU's; if they pass, the second tier leaves them out until its files change.
test-virtual-gpu: $(READY)
	$(BIN)/python -m tests.virtual_gpu_suite

# How often the judge rejects a correct kernel: JUDGEMENTS in all, continued where they stopped. Then 30 kills of a Ray cluster.
JUDGEMENTS ?= 1000
soak: $(READY)
	$(BIN)/python -m lab.soak --judgements $(JUDGEMENTS)
	$(BIN)/python -m pytest -m in_full tests/astra_chat/detached

check: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(BIN)/python -m pytest -q tests/test_layers.py

gpu: $(READY)
	$(BIN)/python -m pytest -m gpu

setup: $(READY)

$(READY): pyproject.toml tools/virtual_gpu/pyproject.toml tools/system/setup_env.py tools/virtual_gpu/astra_vgpu/ground/toolkit.py
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo 'Astra needs Python 3.11 or newer: make PYTHON=python3.12' >&2; exit 3; }
	PYTHONPATH=tools/virtual_gpu $(PYTHON) -m astra_chat.tools.system.setup_env
	@touch $@

clean:
	rm -rf .venv build dist *.egg-info tools/virtual_gpu/build tools/virtual_gpu/dist tools/virtual_gpu/*.egg-info
