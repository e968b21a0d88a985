# Everything runs from .venv; nothing but Python >= 3.11 is needed.
PYTHON ?= python3
PIP = .venv/bin/python -m pip --disable-pip-version-check install --quiet --constraint constraints.txt
OUT ?= leaderboard
# two threads of BLAS in each of two processes are slower than one
export OMP_NUM_THREADS ?= 1

.PHONY: leaderboard test test-all lint types bench clean

leaderboard: .venv/.core
	.venv/bin/costgym leaderboard --suite quick --seed 0 --out $(OUT)

test: .venv/.dev lint types
	.venv/bin/python -m pytest -m "not slow" -n auto

test-all: .venv/.dev lint types
	.venv/bin/python -m pytest -n auto

lint: .venv/.dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports --no-cache --no-logo

types: .venv/.dev
	.venv/bin/mypy -p costgym

bench: .venv/.core
	.venv/bin/costgym bench

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.core: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

# torch comes first and by number: any other request for it downloads gigabytes of GPU libraries
.venv/.dev: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) torch==2.13.0
	$(PIP) --editable ".[dev,train,vision,data,store,serve]"
	touch $@ .venv/.core

clean:
	rm -rf .venv build leaderboard
