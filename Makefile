.DEFAULT_GOAL := help
SHELL := /bin/bash -euo pipefail
export PATH := $(CURDIR)/.venv/bin:$(PATH)
PYTHON ?= python3
# Discord's own documents, which its simulator's tests hold every request to; no part of the tree.
export WARPBOARD_DISCORD_OPENAPI ?= $(abspath $(wildcard ../shared/data/discord-openapi.json))
export WARPBOARD_DISCORD_GATEWAY_SCHEMA ?= $(abspath $(wildcard ../shared/data/discord-gateway.schema.json))
PARTS := shared harness[torch] services/ingest services/scheduler services/gpu-agent \
         services/ranker services/discord-edge cli[mcp,plots,up] discord-sim[zstd]
PACKAGES := shared harness ingest scheduler gpu_agent ranker discord_edge warpboard discord_sim

.PHONY: help install format check docs problems test-fast test test-long up demo bench chaos contract ci clean
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-10s %s\n", $$1, $$2}' Makefile

# A fresh venv's pip lacks --group, hence the upgrade.
.venv/installed: constraints.txt pyproject.toml $(wildcard */pyproject.toml services/*/pyproject.toml)
	$(PYTHON) -m venv .venv
	.venv/bin/pip install -q --upgrade -c constraints.txt pip
	.venv/bin/pip install -q -c constraints.txt --group dev $(PARTS:%=-e '%')
	@touch $@

install: .venv/installed ## Make .venv with every part, editable

format: install ## Rewrite the code in the project's format
	ruff format .
	ruff check --fix .

check: install ## Format, lint, types, imports: what a reviewer need not say
	ruff format --check .
	ruff check .
	mypy $(PACKAGES:%=-p %)
	mypy --explicit-package-bases tests bench docs
	lint-imports

docs: install ## Write the generated pages anew
	python -m docs.generate

# A directory each; ONLY="softmax rope" names some of them.
ONLY ?= $(notdir $(patsubst %/task.yml,%,$(wildcard problems/*/task.yml)))

problems: install ## Check the catalogue by its solutions; ONLY="softmax rope" for some
	warpboard problem check $(ONLY:%=problems/%)

test-fast: install ## Tests that need no server and no GPU
	pytest -q -m "not server and not gpu"

# Three keep two cores busy; a fourth only made all of them wait. What is marked `alone` comes after.
WORKERS ?= 3

CROWDED = -n $(WORKERS) --dist loadfile --no-loadscope-reorder

test: install ## Most tests, a quarter of an hour; skips say what is missing
	pytest -rs -m "not alone and not long" $(CROWDED)
	pytest -rs -m "alone and not long" tests

test-long: install ## The other tests: minutes of kills, outages and random requests
	pytest -rs -m "long and not alone" --timeout 600 $(CROWDED) tests
	pytest -rs -m "long and alone" --timeout 600 tests

up: install ## The platform on this machine, until Ctrl-C
	warpboard up

demo: install ## Start everything, submit kernels, print the leaderboards, stop
	warpboard demo

bench: install ## Measure turnaround and the log; ratios of one run
	python -m bench

chaos: install ## Kill everything at random for CHAOS_S seconds, then judge the log
	python -m tests.system.chaos --seconds $${CHAOS_S:-1200} $${CHAOS_SEED:+--seed $$CHAOS_SEED}

contract: install ## Ask the API by its own document, thousands of cases
	python -m tests.contract_openapi.asking

ci: check test test-long ## What CI runs

clean: ## Remove the environment and the local platform's data
	rm -rf .venv .warpboard
