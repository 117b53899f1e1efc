# What a developer does, one target each; every one works in a fresh clone with Python 3.11 or
# newer, a C compiler and, for Spark, Java 17.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV ?= .venv
STORE ?=
BIN := $(VENV)/bin
INSTALLED := $(VENV)/.installed
PROTOC := .cache/protoc
NATIVE := $(wildcard $(addprefix alance/kernels/*.,pyx pxi pxd h))
PROTO := $(wildcard protos/alance/proto/*.proto)

.PHONY: help install test demo bench lint types protos integration conformance exit-test fuzz simulate clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 14

install: $(INSTALLED) ## make .venv and install alance into it, kernels compiled

test: $(INSTALLED) ## run the tests (a few minutes on 2 cores)
	$(BIN)/python -m pytest -n 2 --dist loadfile

demo: $(INSTALLED) ## run the main job on a local S3 server, or on STORE=/some/dir
	$(BIN)/python -m demo $(if $(STORE),--store "$(STORE)")

BENCH ?=
bench: $(INSTALLED) ## compare speed and requests with pylance, e.g. BENCH="remote --latency 30"
	$(BIN)/python -m benchmarks $(BENCH)

lint: $(INSTALLED) ## ruff and codespell
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell

types: $(INSTALLED) ## mypy --strict
	$(BIN)/mypy

integration: $(INSTALLED) ## run the tests that need servers, faults or many processes
	$(BIN)/python -m pytest integration --ignore integration/conformance

conformance: $(INSTALLED) ## write a matrix of data with pylance, read it here, and the other way round
	$(BIN)/python -m pytest -n 2 integration/conformance

exit-test: $(INSTALLED) ## end 200 short processes, each with status 0
	ALANCE_EXIT_PROCESSES=200 $(BIN)/python -m pytest tests/test_clean_exit.py

FUZZ ?= 20000
fuzz: $(INSTALLED) ## damage pages and files, FUZZ=20000 times for each kind
	ALANCE_FUZZ_CASES=$(FUZZ) $(BIN)/python -m pytest -n 2 tests/encodings/test_fuzz.py tests/file/test_fuzz.py

SEEDS ?= 10000
simulate: $(INSTALLED) ## run SEEDS=10000 simulations of many writers over a bad store; a failing seed replays
	ALANCE_SIMULATION_SEEDS=$(SEEDS) $(BIN)/python -m pytest -n 2 tests/simulation

protos: $(PROTOC)/.installed ## regenerate alance/proto from protos/
	$(PROTOC)/bin/python -m grpc_tools.protoc -I protos --python_out=. --pyi_out=. $(PROTO)

clean: ## remove everything that git does not know, .venv included
	git clean -fdXq

# An environment of its own: the generator asks for an older protobuf than the library runs on.
$(PROTOC)/.installed: $(INSTALLED)
	@generator="$$($(BIN)/python -c 'import tomllib
	project = tomllib.load(open("pyproject.toml", "rb"))["project"]
	print(*project["optional-dependencies"]["protos"])')"
	$(BIN)/python -m venv $(PROTOC)
	$(PROTOC)/bin/python -m pip install --quiet --disable-pip-version-check $$generator
	touch $@

# What was built goes first: a changed header alone would not make setuptools build it again.
$(INSTALLED): pyproject.toml $(NATIVE)
	@for python in "$(PYTHON)" python3.13 python3.12 python3.11; do
	  if "$$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
	    found="$$python"; break
	  fi
	done
	if [ -z "$${found:-}" ]; then
	  echo "alance needs Python 3.11 or newer, but $(PYTHON) is" \
	    "$$("$(PYTHON)" --version 2>&1 | tail -n 1) and none of python3.11 to python3.13" \
	    "is on the PATH. Install one, or say: make PYTHON=/path/to/python3.11" >&2
	  exit 1
	fi
	echo "Installing alance into $(VENV), with what its tests and Spark need..."
	[ -x $(BIN)/python ] || "$$found" -m venv $(VENV)
	rm -f alance/kernels/*.so alance/kernels/*.c
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[spark,test,lint]'
	touch $@
