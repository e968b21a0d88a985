# Everything runs from .venv; nothing but Python >= 3.11 is needed.
PYTHON ?= python3
# what is never imported need not be compiled: half of the time of an installation
PIP = .venv/bin/python -m pip --disable-pip-version-check install --quiet --no-compile --constraint constraints.txt
OUT ?= leaderboard
TORCH ?= torch==2.13.0
# and what is imported is compiled once, not in every process
unexport PYTHONDONTWRITEBYTECODE
# two threads of BLAS in each of two processes are slower than one
export OMP_NUM_THREADS ?= 1

.PHONY: leaderboard soak test quick test-all test-native test-cuda lint types docs notebooks pictures dist audit bench clean

leaderboard: .venv/.core
	.venv/bin/costgym leaderboard --suite quick --seed 0 --out $(OUT)

# a file's tests stay in one process, so that what its fixtures play is played once; a test that waits for ever ends its process
# with the stacks of all threads, not the whole run
TESTS = .venv/bin/python -m pytest -n auto --dist loadfile
# some tests wait for a browser, a server or a command: by itself the quick suite took 230 s, not 246, with one process more than
# there are processors; beside the types, which fill these waits too, it was no quicker
MORE = PYTEST_XDIST_AUTO_NUM_WORKERS=$$(.venv/bin/python -c "import os; print(1 + os.cpu_count())")
LIMIT = --timeout 600 --timeout-method thread
test: .venv/.dev lint
	@$(MAKE) --no-print-directory --jobs 2 types quick MORE=

quick: .venv/.dev
	$(MORE) $(TESTS) $(LIMIT) -m "not slow and not native"

test-all: .venv/.dev lint types
	$(TESTS)

# the properties of all worlds, with new examples until the time is over
MINUTES ?= 60
SOAK = tests/simulators/test_world_machine.py tests/simulators/oracle/test_brute_force.py tests/simulators/batch/test_lockstep.py
soak: .venv/.dev
	timeout $(MINUTES)m .venv/bin/python -m pytest -x --hypothesis-profile soak -m "" $(SOAK) || [ $$? -eq 124 ]

lint: .venv/.dev
	.venv/bin/ruff check .
	.venv/bin/ruff format --check .
	.venv/bin/lint-imports --no-cache --no-logo
	@git grep -nIwE -f .ci/words -- '*.py' '*.md' '*.html' '*.js' '*.ipynb'; test $$? -eq 1 || { echo "see docs/glossary.md"; exit 1; }

types: .venv/.dev
	.venv/bin/mypy -p costgym

docs: .venv/.docs
	rm -rf build/docs
	.venv/bin/python -m sphinx --builder html --doctree-dir build/doctrees --fresh-env --fail-on-warning --keep-going --quiet docs build/docs
	@echo "the documentation is in build/docs/index.html"

# the tutorials, executed and stored with what they print
notebooks: .venv/.dev
	.venv/bin/python docs/extensions/notebooks.py

# the pictures of the README and the guide; plays the default leaderboard and photographs its page with chromium
pictures: .venv/.dev
	.venv/bin/python benchmarks/pictures.py

# what a release uploads: built, installed into empty environments, and played there
dist: .venv/.core
	$(PIP) build basedpyright
	.venv/bin/python .ci/distribution.py build/dist

# known weaknesses of the pinned dependencies; needs a network
audit: .venv/.core
	$(PIP) pip-audit
	.venv/bin/pip-audit --requirement constraints.txt --no-deps --disable-pip

bench: .venv/.core
	.venv/bin/costgym bench

.venv/bin/python:
	$(PYTHON) -m venv .venv

.venv/.core: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable .
	touch $@

.venv/.docs: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) --editable ".[docs]"
	touch $@ .venv/.core

# PyTorch comes first, so that its build can be chosen: make test TORCH="torch==2.13.0 --index-url URL"
.venv/.dev: .venv/bin/python pyproject.toml constraints.txt
	$(PIP) $(TORCH)
	$(PIP) --editable ".[dev,train,vision,data,torchrl,store,serve,forge]"
	touch $@ .venv/.core

# what compiles the native batches: minutes in a fresh checkout
test-native: .venv/.dev
	$(TESTS) $(LIMIT) -m "native and not slow"

# compiles every kernel for a GPU, without one
test-cuda: .venv/.dev
	$(PIP) --editable ".[cuda]"
	.venv/bin/python -m pytest tests/envs/vector/test_device.py

clean:
	rm -rf .venv build leaderboard
