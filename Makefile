# Two commands do everything on a machine with Python >= 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test check lock bench bench-real clean

demo: $(READY)
	$(BIN)/daskfs demo

test: check
	$(BIN)/pytest
	NUMBA_BOUNDSCHECK=1 $(BIN)/pytest -m kernels tests/store tests/basis tests/algorithms

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)
	$(BIN)/python pipelines/benchmarks/ingest.py
	$(BIN)/python pipelines/benchmarks/reading.py
	$(BIN)/python pipelines/benchmarks/memory.py
	$(BIN)/python pipelines/benchmarks/shuffle.py
	$(BIN)/python pipelines/benchmarks/vowpal_wabbit.py
	$(BIN)/python pipelines/benchmarks/substitution.py
	$(BIN)/python pipelines/benchmarks/substitution_memory.py
	for what in expansion gram passes accuracy workers; do $(BIN)/python pipelines/benchmarks/random_features.py $$what || exit; done
	for what in learn classes quality rates workers memory; do $(BIN)/python pipelines/benchmarks/mission.py $$what || exit; done

# Minutes long, and on public files below FROM, of which datasets/README.md says more.
bench-real: $(READY)
	for what in screening fit; do $(BIN)/python pipelines/benchmarks/random_features.py $$what --from $(FROM) || exit; done

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "daskfs needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

# Resolve the newest versions that fit together, in an environment of their own.
lock:
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check '.[test]'
	.venv-lock/bin/python -m pip freeze --exclude daskfs | grep -E '^[A-Za-z0-9._-]+==' | sort -f > constraints.txt
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-lock .mypy_cache .ruff_cache .pytest_cache build dist
