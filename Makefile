# Needs python3 and make; everything else goes into .venv. `make` alone lists the targets.
PYTHON ?= python3
SHELL := /bin/sh
BIN := .venv/bin
# One stamp per chosen Python: another PYTHON makes another environment.
READY := .venv/ready-$(subst /,-,$(PYTHON))
DOCS_READY := .venv-docs/ready
# Asked when a recipe runs, not when this file is read.
WITH_JAVA = JAVA_HOME=$$($(BIN)/python scripts/find_java.py) && export JAVA_HOME &&
PYTEST = $(BIN)/python -m pytest -n 2 --dist loadgroup

# What neither `make test` nor `make test-slow` runs has a target of its own.
USUAL := not statistics and not faults and not browser and not versions and not cluster and not package and not kafka and not delta and not soak

# Cases of each kind for `make fuzz`.
CASES ?= 2000

# Compiled kernels stay inside the project, and Spark uses the same Python.
export SKEWLESS_CACHE_DIR ?= $(CURDIR)/.venv/kernels
export PYSPARK_PYTHON ?= $(CURDIR)/$(BIN)/python
# Whatever the shell says: without bytecode, each of hundreds of processes would compile all modules.
export PYTHONDONTWRITEBYTECODE :=

.DEFAULT_GOAL := help
.PHONY: help demo test test-core test-slow test-nojit test-statistics test-faults test-nightly test-browser test-matrix
.PHONY: lint format bench bench-ways bench-growth bench-replay test-versions test-cluster package
.PHONY: docs soak pictures test-kafka test-delta fuzz overview frontier reproduce docs-tables java clean bench-public

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-16s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

demo: $(READY) ## Show what skewless does
	@$(WITH_JAVA) $(BIN)/skewless demo

test: $(READY) ## Run the tests that everybody should run before a change is shared
	@$(WITH_JAVA) $(PYTEST) -m "not slow and $(USUAL)" tests src experiments

test-core: $(READY) ## Run the same without what starts Spark: two minutes
	@$(PYTEST) -m "not spark and not slow and $(USUAL)" tests src experiments

test-slow: $(READY) ## Run the tests that take longer: more strategies, windows, queries, processes
	@$(WITH_JAVA) $(PYTEST) -m "slow and $(USUAL)" tests

# What is compiled, and what calls it record by record.
COMPILED := tests/contract tests/kernels tests/keys tests/simulator tests/strategies tests/workloads

test-nojit: $(READY) ## Run the quick tests of kernels and strategies as plain Python, without compilation
	NUMBA_DISABLE_JIT=1 $(PYTEST) -m "not spark and not slow and $(USUAL)" $(COMPILED)

test-statistics: $(READY) ## Run the long seeded statistics
	$(PYTEST) -m statistics tests

test-faults: $(READY) ## Kill tasks, stages, executors and drivers, and compare the results
	@$(WITH_JAVA) $(BIN)/python -m pytest -m "faults and not nightly and not soak" tests/faults

test-nightly: $(READY) ## Kill at random, two hundred times, and play 2,000 histories (SKEWLESS_KILL_SEED=7 repeats kills, SKEWLESS_HISTORIES=number, SKEWLESS_HISTORY=seed)
	@$(WITH_JAVA) $(BIN)/python -m pytest -m nightly tests/faults

test-browser: $(READY) docs ## Look at pages and site in Chromium, light, dark and on a phone (pictures: out/browser; SKEWLESS_CHROMIUM=path)
	@$(BIN)/python -m pytest -m browser tests/browser

test-kafka: $(READY) ## Start a Kafka broker, kill it, and compare the results (fetches jars into .jars)
	@$(WITH_JAVA) $(BIN)/python scripts/fetch_jars.py kafka "$$JAVA_HOME" && \
		$(BIN)/python -m pytest -m kafka tests/kafka

test-delta: $(READY) ## Read and write Delta tables on Spark 4.2, with micro-batches that run twice (fetches jars into .jars)
	@$(WITH_JAVA) $(BIN)/python scripts/fetch_jars.py delta "$$JAVA_HOME" && \
		python=$$($(BIN)/python scripts/spark_versions.py environment 4.2) && PYSPARK_PYTHON="$$python" \
		"$$python" -m pytest -m delta -o filterwarnings=default -p no:cacheprovider tests/delta_lake

soak: $(READY) ## Run keyed state for 2,000 micro-batches: nothing may grow (SKEWLESS_SOAK_BATCHES=number)
	@$(WITH_JAVA) $(BIN)/python -m pytest -m soak tests/faults tests/spark/state

test-matrix: $(READY) ## Compare with plain Spark: every strategy, window and output mode
	@$(WITH_JAVA) SKEWLESS_FULL_MATRIX=1 $(PYTEST) \
		-m "not soak and not faults and not statistics" tests/spark

test-versions: $(READY) ## Try every verb on Spark 4.1, 4.2 and 4.3, classic and Connect (VERSIONS="4.1 4.2" for some)
	@$(WITH_JAVA) $(BIN)/python scripts/spark_versions.py test $(VERSIONS); ended=$$?; \
		$(BIN)/python -m benchmarks.tables && exit $$ended

test-cluster: $(READY) ## Submit packed jobs to a standalone cluster on this machine, and kill executors
	@$(WITH_JAVA) $(BIN)/python -m pytest -m cluster tests/cluster

package: $(READY) ## Build the wheel and the source archive in dist, and install the wheel in an empty environment
	@SKEWLESS_DIST=dist $(BIN)/python -m pytest -m package tests/package && ls dist

fuzz: $(READY) ## Try thousands of bad arguments and options (SEED=number repeats, CASES=number each)
	@seed=$${SEED:-$$(date +%s)} && echo "fuzz: SEED=$$seed CASES=$(CASES)" && $(WITH_JAVA) \
		SKEWLESS_FUZZ_SEED=$$seed SKEWLESS_FUZZ_CASES=$(CASES) $(PYTEST) tests/fuzz tests/spark/ledger/test_damaged_files.py

lint: $(READY) ## Check style, types and the direction of imports
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy --strict
	$(BIN)/mypy --strict scripts examples
	$(BIN)/lint-imports

format: $(READY) ## Format the code and fix what can be fixed
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: $(READY) ## Measure what a routing decision costs
	$(BIN)/python -m benchmarks.grouping_cost

bench-ways: $(READY) ## Measure all ways to partition by replay, for the README's table; goes on where it was stopped (OUT=file: all of them anew, into that file; FULL=1 DATA=folder: all cells)
	$(WITH_JAVA) $(BIN)/python -m benchmarks.on_spark.by_replay $(if $(FULL),--full) $(if $(DATA),--data "$(DATA)") $(if $(OUT),--out "$(OUT)")

bench-growth: $(READY) ## Measure how plans, reports, ledger reads and state grow, for docs/background/scale.md
	$(BIN)/python -m benchmarks.growth

bench-replay: $(READY) ## Measure how exact the replay of an event log on other slots is; needs a quiet machine
	$(WITH_JAVA) $(BIN)/python -m benchmarks.on_spark.replay_validation

bench-public: $(READY) ## Measure NEXMark and ShuffleBench on Spark, for docs/results/public-benchmarks.md
	$(WITH_JAVA) $(BIN)/python -m benchmarks.on_spark.public

frontier: $(READY) ## Measure Cascade against all others, for docs/results/frontier.md (DATA=folder of traces)
	$(BIN)/python -m benchmarks.frontier $(if $(DATA),--data "$(DATA)")

pictures: $(READY) ## Draw the pictures of the strategies' pages
	$(BIN)/python -m benchmarks.pictures

overview: $(READY) ## Run all strategies side by side and write the table of the strategies
	$(BIN)/python -m benchmarks.overview

SIZE ?= published
reproduce: $(READY) ## Measure the papers' figures, which takes hours (SIZE=quick: minutes), and write their page
	$(BIN)/python -m experiments.reproduction --size $(SIZE) --record

docs-tables: $(READY) ## Write the generated tables of the documentation anew
	$(BIN)/python -m benchmarks.tables

docs: $(DOCS_READY) ## Build the documentation site in out/site, with all links checked
	NO_MKDOCS_2_WARNING=1 .venv-docs/bin/mkdocs build --strict

java: $(READY) ## Find or fetch Java for Spark, and print its JAVA_HOME
	@$(BIN)/python scripts/find_java.py

clean: ## Remove the environment, the fetched Java, caches and build products
	rm -rf .venv .venv-docs .venv-versions .java .jars build dist out src/*.egg-info spark-warehouse metastore_db derby.log
	rm -rf .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(READY): pyproject.toml constraints.txt
	@command -v $(PYTHON) > /dev/null || { echo "$(PYTHON) was not found; install Python 3.10 to 3.14." >&2; exit 2; }
	@$(PYTHON) scripts/make_environment.py
	@touch $@

$(DOCS_READY): scripts/docs-requirements.txt constraints.txt | $(READY)
	$(BIN)/python -m venv --clear .venv-docs
	.venv-docs/bin/python -m pip install -q --no-input -c constraints.txt -r scripts/docs-requirements.txt
	@touch $@
