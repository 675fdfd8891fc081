# Two commands do everything on a machine with Python >= 3.11 and make: `make demo` and `make test`.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/ready

.PHONY: demo test test-all kernels faults soak coverage test-wheel test-airflow test-clusters test-hosts test-distributed-oldest check review docs gallery lock bench bench-airflow bench-real bench-rivals bench-scaling bench-workers papers clean

demo: $(READY)
	$(BIN)/daskfs demo

test: $(READY)
	$(MAKE) -j 2 check kernels
	$(BIN)/pytest -n 2 --dist loadfile -m 'not slow and not faults'

# What takes longer: crashes at every operation, quality against other methods, other random examples, kernels with
# bounds checks.
test-all: $(READY)
	$(BIN)/pytest -n 2 --dist loadfile -m '(slow or hypothesis) and not faults' --hypothesis-profile=thorough
	NUMBA_BOUNDSCHECK=1 $(BIN)/python tests/compile_kernels.py
	NUMBA_BOUNDSCHECK=1 $(BIN)/pytest -n 2 --dist loadfile -m 'kernels and not slow' tests/store tests/basis tests/algorithms

# Faults of all kinds, many times each: processes killed and frozen, streams cut, a hundred thousand mutated files. Some hours;
# in the end the table of docs/faults.md. ONLY=tests/faults/test_f04_killed_scheduler.py runs one file, and keeps the rest. The
# busy machine (F35) has the machine to itself, and F34 of hosts needs root.
faults: $(READY)
	FAULTS=docs/faults.json $(BIN)/pytest --hypothesis-profile=thorough -n 2 --dist loadfile $(if $(ONLY),$(ONLY),--ignore tests/faults/test_f35_busy_machine.py \
	  tests/faults tests/engine/test_centre.py tests/test_jit.py)
ifndef ONLY
	FAULTS=docs/faults.json $(BIN)/pytest --hypothesis-profile=thorough tests/faults/test_f35_busy_machine.py
	FAULTS=docs/faults.json $(BIN)/pytest --hypothesis-profile=thorough tests/hosts -k f34
endif
	$(BIN)/python pipelines/docs/faults_page.py

# What grows in a thousand selections, and in half an hour of mixed load with killed workers: slopes.
soak: $(READY)
	$(BIN)/python pipelines/house/soak.py --json docs/soak.json

coverage: $(READY)
	$(BIN)/pytest -n 2 --dist loadfile -m 'not slow and not faults' --cov=daskfs --cov-report=xml --cov-report=term

# Scheduler, workers, object store and client in network namespaces, with TLS and cables that are pulled: root, minutes.
test-hosts: $(READY)
	$(BIN)/pytest tests/hosts

# The job files of docs/clusters.md by real services on this machine: minutes; what is not installed is skipped, and said.
test-clusters: .venv/ready-for-clusters
	$(BIN)/pytest -rs tests/clusters

.venv/ready-for-clusters: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[cluster-tests]'
	touch $@

# The page in Dask's dashboard, what workers are told, and actors lean on parts of Dask that may change: here with the
# oldest version that is supported.
OLDEST := 2025.1.0
test-distributed-oldest:
	rm -rf .venv-oldest && $(PYTHON) -m venv .venv-oldest
	grep -viE '^(dask|distributed)==' constraints.txt > .venv-oldest/constraints.txt
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check -c .venv-oldest/constraints.txt \
	  'dask[array]==$(OLDEST)' 'distributed==$(OLDEST)' -e '.[test]'
	.venv-oldest/bin/pytest -n 2 --dist loadfile -m 'not slow and not faults' tests/observe/test_dashboard.py tests/observe/test_live_runs.py \
	  tests/engine/test_worker_pool.py tests/engine/test_worker_sessions.py tests/engine/test_asynchronous.py

# What users get: both archives, and the installed wheel, away from the source tree.
test-wheel: $(READY)
	rm -rf dist .venv-wheel && $(BIN)/python -m pip install --quiet --disable-pip-version-check build
	$(BIN)/python -m build --outdir dist .
	$(PYTHON) -m venv .venv-wheel
	.venv-wheel/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl pytest
	cd .venv-wheel && bin/python -I -m pytest -q -p no:cacheprovider --noconftest -c /dev/null ../tests/wheel

# Airflow is large, and few need it: an environment of its own.
test-airflow: .venv-airflow/ready
	.venv-airflow/bin/pytest tests/dags

kernels: $(READY)
	$(BIN)/python tests/compile_kernels.py

check: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The guide of Scientific Python for repositories (sp-repo-review); the exceptions and their reasons are in pyproject.toml.
review:
	rm -rf .venv-review && $(PYTHON) -m venv .venv-review
	.venv-review/bin/python -m pip install --quiet --disable-pip-version-check 'sp-repo-review[cli]>=2025.1'
	.venv-review/bin/repo-review .

# The pages of docs/ as a site in site/, for a browser or a server; after the installation without network.
docs: .venv/ready-for-docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict
	$(BIN)/python pipelines/docs/links.py site

.venv/ready-for-docs: $(READY)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	touch $@

# The worked examples of docs/gallery, compared with what the pages say: about a minute. Reports go to docs/gallery/reports.
gallery: $(READY)
	$(BIN)/python pipelines/gallery/run.py

# Figures of MISSION, which docs/benchmarks.md repeats, go to a file.
MISSION_FIGURES = --json docs/mission-speed.json

bench: $(READY)
	$(BIN)/python pipelines/benchmarks/rivals.py
	for what in small compile; do $(BIN)/python pipelines/benchmarks/start.py $$what || exit; done
	$(BIN)/python pipelines/benchmarks/ingest.py
	$(BIN)/python pipelines/benchmarks/reading.py
	$(BIN)/python pipelines/benchmarks/object_store.py
	$(BIN)/python pipelines/benchmarks/memory.py
	$(BIN)/python pipelines/benchmarks/shuffle.py
	$(BIN)/python pipelines/benchmarks/vowpal_wabbit.py
	$(BIN)/python pipelines/benchmarks/substitution.py
	$(BIN)/python pipelines/benchmarks/substitution_memory.py
	$(BIN)/python pipelines/benchmarks/watching.py
	for what in expansion gram passes accuracy workers; do $(BIN)/python pipelines/benchmarks/random_features.py $$what || exit; done
	for what in quality rates workers memory; do $(BIN)/python pipelines/benchmarks/mission.py $$what || exit; done
	for what in learn "learn --width 4194304" classes seeds; do $(BIN)/python pipelines/benchmarks/mission.py $$what $(MISSION_FIGURES) || exit; done
	$(BIN)/python pipelines/benchmarks/mission_units.py $(MISSION_FIGURES)
	$(BIN)/python pipelines/benchmarks/mission_race.py $(MISSION_FIGURES)

# daskfs beside the tools people use today, in one run; docs/rivals.md and a line of history with KEEP=1, an hour with FULL=1.
bench-rivals: $(READY)
	$(BIN)/python pipelines/benchmarks/rivals.py $(if $(FULL),--full) $(if $(KEEP),--keep)

# docs/scaling.md but for its fits, which `scaling.py` measures: minutes on a machine with nothing else to do; with TERABYTE=1
# a terabyte of chunk keys for each algorithm, hours and 16 GB in benchmark-data.
bench-scaling: $(READY)
	for what in linear many_workers spot 'terabyte $(if $(TERABYTE),--terabytes 1 --pool 8)'; do \
	  set -- $$what; script=$$1; shift; $(BIN)/python pipelines/benchmarks/$$script.py "$$@" --out docs/scaling.json || exit; done
	$(BIN)/python pipelines/docs/scaling.py

# Two processes against one, all algorithms in one table: minutes, 9 GB in benchmark-data, and a machine with nothing else to do.
bench-workers: $(READY)
	$(BIN)/python pipelines/benchmarks/workers.py

# Every table and figure of the papers, and docs/papers.md: minutes, or hours with FULL=1, which goes on where it was
# stopped; AGAIN=1 measures anew. Those that need public files are left out without FROM (datasets/README.md).
papers: $(READY)
	$(BIN)/python pipelines/papers/run.py $(if $(FROM),--from $(FROM)) $(if $(FULL),--full) $(if $(AGAIN),--again)

# From trigger to published selection, beside the command line.
bench-airflow: .venv-airflow/ready
	.venv-airflow/bin/python pipelines/benchmarks/airflow_overhead.py

# Minutes long, and on public files below FROM, of which datasets/README.md says more.
bench-real: $(READY)
	for what in screening fit; do $(BIN)/python pipelines/benchmarks/random_features.py $$what --from $(FROM) || exit; done
	$(BIN)/python pipelines/benchmarks/mission.py real --seeds 5 --from $(FROM) $(MISSION_FIGURES)
	$(BIN)/python pipelines/benchmarks/mission_race.py --from $(FROM) $(MISSION_FIGURES)

$(READY): pyproject.toml constraints.txt
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "daskfs needs Python 3.11 or newer")'
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	touch $@

.venv-airflow/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-airflow
	.venv-airflow/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[airflow,test]'
	touch $@

# Resolve the newest versions that fit together, in an environment of their own.
lock:
	rm -rf .venv-lock && $(PYTHON) -m venv .venv-lock
	.venv-lock/bin/python -m pip install --quiet --disable-pip-version-check '.[airflow,cluster-tests,docs,test]'
	.venv-lock/bin/python -m pip freeze --exclude daskfs | grep -E '^[A-Za-z0-9._-]+==' | sort -f > constraints.txt
	rm -rf .venv-lock

clean:
	rm -rf .venv .venv-airflow .venv-lock .venv-oldest .venv-review .venv-wheel .mypy_cache .ruff_cache .pytest_cache build dist site gallery docs/gallery/reports
