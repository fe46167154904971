# PYTHON: any Python 3.11 or later. Each has a venv of its own: .venv is that of python3, and
# .venv-python3.13 that of `make check PYTHON=python3.13`.
PYTHON ?= python3
# A pipe fails with any of its commands.
SHELL := bash
.SHELLFLAGS := -o pipefail -c
VENV := .venv$(addprefix -,$(filter-out python3,$(notdir $(PYTHON))))
BIN := $(VENV)/bin

# The folders of tests that `make check` runs beside each other; the last lane has all others.
OF_consumer := tests/consumer tests/fake
OF_commands := tests/cli tests/dlq tests/strategy
OF_pages := tests/docs tests/demo tests/journal tests/testing tests/examples
OF_others = tests $(addprefix --ignore=,$(COMPUTING) $(TORTURE) $(OF_consumer) $(OF_commands) $(OF_pages))
LANES := $(addprefix tests-of-,consumer commands pages others)

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.PHONY: help install check test jars checks $(LANES) demo docs pictures torture soak rules benchmarks clean

help:
	@echo "make demo        see it work in 15 seconds; needs nothing but Python 3.11 or later"
	@echo "make demo-spark  a week of outages in a simulated fleet, analysed with Spark; Java 17"
	@echo "make check       ruff, mypy, the site, and the tests without broker and Spark: 3 minutes"
	@echo "make test        everything, on real brokers: half an hour; Java 17 or later"
	@echo "make torture     try to break the guarantees, for hours; see ARGS='--help'"
	@echo "make soak        the same under load, with memory and threads watched, for MINUTES=30"
	@echo "make rules       mutation tests: remove each rule of the loop, and name the test that fails"
	@echo "make benchmarks  measure the figures of the README; Java 17 or later"
	@echo "make docs        build the documentation as a site, in $(SITE)/index.html"
	@echo "make pictures    draw the diagrams of the documentation, and take those of the console; Java"
	@echo "make install     install the package and its test dependencies into .venv"
	@echo "make clean       remove every .venv and all that was built or cached"

install: $(VENV)/.installed-dev

# Without a message of our own a machine would answer with a traceback of venv or pip.
$(BIN)/python:
	@command -v $(PYTHON) >/dev/null || \
	  { echo "error: there is no $(PYTHON): install Python 3.11 or later, or set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "error: $(PYTHON) is $$($(PYTHON) -V 2>&1), 3.11 or later is needed: set PYTHON=..." >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || \
	  { echo "error: $(PYTHON) cannot make a venv: install it (Debian: apt install python3-venv)" >&2; exit 1; }
	@$(PYTHON) -m venv $(VENV)

$(VENV)/.installed-dev: pyproject.toml | $(BIN)/python
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[dev]'
	@touch $@ $(VENV)/.installed-demo

$(VENV)/.installed-demo: pyproject.toml | $(BIN)/python
	@echo "installing linear_retry into $(VENV): half a minute, the first time only"
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check -e '.[demo]'
	@touch $@

jars: install
	@$(BIN)/python -m tests.kafka_jars >/dev/null

check:
	$(MAKE) --no-print-directory -j$(words checks $(LANES)) checks $(LANES)

test: install jars
	$(MAKE) --no-print-directory -j6 $(REAL_LANES) checks

checks: install
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy
	$(MAKE) --no-print-directory docs

# Most wait for brokers and clocks, so six lanes run at once, each with a broker of its own where it
# needs one; the longest begin. None has another's share of the processors: Spark waits 10 s for a
# new Python worker, and no longer. Those with many clients are apart: each client of librdkafka
# takes one of 1,024 keys of a process's threads.
COMPUTING := tests/spark
TORTURE := tests/torture tests/strategy/tuning
SCENARIOS := tests/scenarios
MEMBERS := $(wildcard $(SCENARIOS)/test_[a-m]*.py)
STORES := tests/store tests/outbox
SCHEDULING := tests/scheduler tests/inbox
LETTERS := tests/dlq tests/cli
DOCS := tests/docs tests/benchmarks tests/packaging
PROGRAMS := tests/soak tests/demo tests/examples
CONSOLE := tests/console
BROWSERS := tests/console/browser
REAL_LANES := tests-that-compute $(addprefix tests-of-,groups stores scheduling letters the-rest docs torture browsers console members programs)
.PHONY: $(REAL_LANES)
$(LANES): tests-of-%: install
	$(BIN)/pytest -q -m "not broker" $(addprefix --ignore=,$(TORTURE)) $(OF_$*) | sed -u 's/^/$*: /'

tests-that-compute: jars
	$(BIN)/pytest -q --durations=15 -m "not long" $(COMPUTING) | sed -u 's/^/compute: /'

tests-of-torture: jars
	$(BIN)/pytest -q --durations=15 -m "not long" $(TORTURE) | sed -u 's/^/torture: /'

tests-of-members: jars
	$(BIN)/pytest -q --durations=15 $(MEMBERS) | sed -u 's/^/members: /'

tests-of-groups: jars
	$(BIN)/pytest -q --durations=15 $(addprefix --ignore=,$(MEMBERS)) $(SCENARIOS) | sed -u 's/^/groups: /'

tests-of-letters: jars
	$(BIN)/pytest -q --durations=15 $(LETTERS) | sed -u 's/^/letters: /'

tests-of-docs: jars
	$(BIN)/pytest -q --durations=15 $(DOCS) | sed -u 's/^/docs: /'

tests-of-the-rest: jars
	$(BIN)/pytest -q --durations=15 $(addprefix --ignore=,$(COMPUTING) $(TORTURE) $(SCENARIOS) $(STORES) $(SCHEDULING) $(LETTERS) $(DOCS) $(PROGRAMS) $(CONSOLE)) | sed -u 's/^/rest: /'

tests-of-programs: jars
	$(BIN)/pytest -q --durations=15 $(PROGRAMS) | sed -u 's/^/programs: /'

tests-of-stores: jars
	$(BIN)/pytest -q --durations=15 $(STORES) | sed -u 's/^/stores: /'

tests-of-scheduling: jars
	$(BIN)/pytest -q --durations=15 $(SCHEDULING) | sed -u 's/^/scheduling: /'

tests-of-console: jars
	$(BIN)/pytest -q --durations=15 --ignore=$(BROWSERS) $(CONSOLE) | sed -u 's/^/console: /'

tests-of-browsers: jars
	$(BIN)/pytest -q --durations=15 $(BROWSERS) | sed -u 's/^/browsers: /'

# Warnings are errors: a link that leads nowhere, a name that is not there. All pages are read anew
# (-E), for some are made of the code.
SITE := .cache/site
docs: install
	$(BIN)/sphinx-build -E -W --keep-going -q docs $(SITE)
	@echo "$(SITE)/index.html"

# Those of the console are of a real run: a broker, a store, a browser.
pictures: jars
	$(BIN)/python -m docs.pictures
	$(BIN)/python -m tests.console.browser.pictures

demo: $(VENV)/.installed-demo
	@$(BIN)/linear-retry demo $(ARGS)

demo-spark: jars
	@$(BIN)/python -m tests.demo_spark

# For example: make torture ARGS="schedules --first 1000000 --amount 50000"
torture: jars
	$(BIN)/python -m tests.torture $(ARGS)

# What a soak needs besides its time is a minute. ARGS="--json soak.json" keeps what was seen.
MINUTES ?= 30
soak: jars
	$(BIN)/python -m tests.soak --minutes $(MINUTES) $(ARGS)

# For example: make rules ARGS="--rule commit"
rules: install
	$(BIN)/python -m tests.rules $(ARGS)

benchmarks: jars
	$(BIN)/python -m benchmarks

clean:
	rm -rf .venv .venv-* .cache .mypy_cache .pytest_cache .ruff_cache .hypothesis build dist
