# Every target makes the environment it needs first (see .ci/venv), so each of these works in a fresh clone.
#   make demo                    train a small GPT, eager and compiled side by side (ARGS="--steps 20")
#   make test                    the suite on the best Python found (PYTHON=3.11, ARGS="-k guards")
#   make test-all                the suite on each Python found
#   make lint                    ruff, mypy
#   make bench                   the benchmarks, one after the other
#   make venv                    only the environment; .venv leads to it
PYTHON ?=
ARGS ?=
# Two test processes on two cores; a process that dies fails its test and no more.
JOBS ?= $(shell n=$$(getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2); [ "$$n" -lt 8 ] && echo "$$n" || echo 8)

with-env = env=$$(.ci/venv $(PYTHON)) && export PYTHONPATH="$(CURDIR)" PYTHONHASHSEED=0 && "$$env/bin/python"

.PHONY: help venv demo test test-all lint bench
.DEFAULT_GOAL := help

help:
	@sed -n 's/^#   //p' Makefile

# A folder .venv of one's own is left alone.
venv:
	@env=$$(.ci/venv $(PYTHON)) && { [ -d .venv ] && [ ! -L .venv ] || ln -sfn "$$env" .venv; }

demo: venv
	@$(with-env) examples/train_transformer.py $(ARGS)

test: venv
	@$(with-env) -m pytest -n $(JOBS) --dist worksteal $(ARGS)

test-all:
	@failed=; for version in $$(.ci/venv --pythons); do \
	    echo "Python $$version"; $(MAKE) --no-print-directory test PYTHON=$$version || failed="$$failed $$version"; \
	done; if [ -n "$$failed" ]; then echo "failed on$$failed"; exit 1; fi

lint: venv
	@$(with-env) -m ruff check .
	@$(with-env) -m mypy
	@$(with-env) tests/test_layers.py

bench: venv
	@$(with-env) examples/benchmarks/dispatch.py $(ARGS)
	@$(with-env) examples/benchmarks/capture.py $(ARGS)
	@$(with-env) examples/benchmarks/overhead.py $(ARGS)
	@$(with-env) examples/benchmarks/overhead.py --discover $(ARGS)
	@$(with-env) examples/benchmarks/breaks.py
	@$(with-env) examples/benchmarks/dynamic.py
	@$(with-env) examples/benchmarks/straight.py
