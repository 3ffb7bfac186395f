.DEFAULT_GOAL := help
SHELL := /bin/bash -euo pipefail
export PATH := $(CURDIR)/.venv/bin:$(PATH)
PYTHON ?= python3
# Compiled code is kept, also where the environment says otherwise: pytest rewrites 600 files.
export PYTHONDONTWRITEBYTECODE :=
# Discord's own documents, which its simulator's tests hold every request to; no part of the tree.
export WARPBOARD_DISCORD_OPENAPI ?= $(abspath $(wildcard ../shared/data/discord-openapi.json))
export WARPBOARD_DISCORD_GATEWAY_SCHEMA ?= $(abspath $(wildcard ../shared/data/discord-gateway.schema.json))
# The words of the platform that users come from, which a script of the tests follows.
export WARPBOARD_PUBLIC_DOCUMENTS ?= $(abspath $(wildcard ../shared/spec/public-documents))
PARTS := shared[tracing] harness[torch] services/ingest services/scheduler[modal] services/gpu-agent \
         services/ranker services/discord-edge cli[mcp,plots,up] agents discord-sim[zstd]
PACKAGES := shared harness ingest scheduler gpu_agent ranker discord_edge warpboard \
            warpboard_agents warpboard_verifiers discord_sim

.PHONY: help install format check docs walks problems test-fast test test-cuda test-long \
        test-crowded test-alone test-agents up demo optimise-demo bench bench-smoke chaos drill \
        three-machines contract clean
help: ## Show this list
	@awk 'BEGIN {FS = ":.*## "} /^[a-z-]+:.*## / {printf "  %-13s %s\n", $$1, $$2}' Makefile

# The torch of PyPI for Linux brings 3 GB of CUDA libraries. A machine without an NVIDIA GPU gets the
# one for processors instead. TORCH_INDEX= takes pip's own index; another address, that index.
TORCH_INDEX ?= $(if $(shell nvidia-smi -L 2>/dev/null | grep ^GPU),,https://download.pytorch.org/whl/cpu)

# A fresh venv's pip lacks --group, hence the upgrade. pip would compile on one core. Only torch comes from TORCH_INDEX, or from
# pip's --find-links; where neither has it, step 4 takes it from pip's own index.
.venv/installed: constraints.txt pyproject.toml $(wildcard */pyproject.toml services/*/pyproject.toml)
	@echo "Installing every part and its dependencies into .venv: 2 GB, one to three minutes"
	@echo "1 of 4: an empty environment"
	@$(PYTHON) -m venv .venv
	@echo "2 of 4: a pip that knows dependency groups"
	@.venv/bin/pip install -q --upgrade -c constraints.txt pip
	@echo "3 of 4: torch from $(or $(TORCH_INDEX),pip's own index)"
	@$(if $(TORCH_INDEX),.venv/bin/pip install -qq --no-compile --no-deps -c constraints.txt \
		--index-url $(TORCH_INDEX) --retries 1 --timeout 20 torch || \
		echo "$(TORCH_INDEX) has no such torch or cannot be reached: pip's own index is asked")
	@echo "4 of 4: the packages of constraints.txt and our parts, editable"
	@.venv/bin/pip install -q --no-compile -c constraints.txt --group dev $(PARTS:%=-e '%')
	@.venv/bin/python -W ignore -m compileall -qq -j 0 $(CURDIR)/.venv/lib || true
	@echo "Done: source .venv/bin/activate, or make help"
	@touch $@

# The editor of the web site. Without a network, one line says that it is a plain text field, and
# the next `make` tries again.
CODE_EDITOR = services/ingest/src/ingest/site/static/built/code-editor.js
$(CODE_EDITOR): $(addprefix web/,.npmrc build.py code-editor.js package-lock.json package.json) | .venv/installed
	@rm -f $@
	@python web/build.py $@ || true

install: .venv/installed $(CODE_EDITOR) ## Make .venv with every part, editable

format: install ## Rewrite the code in the project's format
	ruff format .
	ruff check --fix .

check: install ## Format, lint, types, imports: what a reviewer need not say
	ruff format --check .
	ruff check .
	mypy $(PACKAGES:%=-p %)
	mypy --explicit-package-bases tests bench docs web
	lint-imports

docs: install ## Write the generated pages again
	python -m docs.generate

walks: install ## Follow the walkthroughs and every transcript of the pages, and time them
	pytest -q -rP -m long tests/docs

# Each target remembers its failures; RERUN=1 runs these again, one by one.
RERUN ?=
LAST_FAILED = $(if $(RERUN),-n 0 --last-failed --last-failed-no-failures none)
PYTEST = pytest -q -rs -o cache_dir=.pytest_cache/$@

# In a folder of their own: torch uses Triton wherever it is installed. A linker finds cuBLAS only
# by a name without a version, which its wheel lacks.
CUDA_COMPILE = $(CURDIR)/build/cuda-compile
build/cuda-compile: constraints.txt pyproject.toml | install
	@pip install -q --upgrade --target $@ -c constraints.txt --group cuda-compile
	@ln -sf libcublas.so.13 $@/nvidia/cu13/lib/libcublas.so
	@touch $@

# Some of it also runs without these wheels. CUDA_LATER=1 leaves it out of `make test-long`.
CUDA_TESTS = $(addprefix tests/toolchains/,test_examples.py test_kernels.py test_nvrtc.py)
CUDA_LATER ?=

test-cuda: install build/cuda-compile ## Compile the examples of every language, without a GPU
	PYTHONPATH=$(CUDA_COMPILE):$(CUDA_COMPILE)/nvidia_cutlass_dsl/dsl_packages \
		$(PYTEST) -m "" $(or $(LAST_FAILED),-n 2) $(CUDA_TESTS)

# OpenEnv, verifiers, TRL and OpenEvolve, 2 GB with torch, which conflict with constraints.txt. With
# this environment, `make test-long` has their tests, too.
.venv/agents/installed: agents/constraints.txt $(wildcard agents/pyproject.toml) | install
	@echo "Installing the frameworks of agents/constraints.txt into .venv/agents: 2 GB, three minutes"
	@python -m venv .venv/agents
	@$(if $(TORCH_INDEX),.venv/agents/bin/pip install -qq --no-compile --no-deps \
		-c agents/constraints.txt --index-url $(TORCH_INDEX) --retries 1 --timeout 20 torch || true)
	@.venv/agents/bin/pip install -q --no-compile --no-deps -e shared -e harness -e cli -e agents
	@.venv/agents/bin/pip install -q --no-compile -c agents/constraints.txt \
		-e shared -e 'harness[torch]' -e cli -e 'agents[agents]'
	@touch $@

test-agents: .venv/agents/installed ## The adapters with the real OpenEnv, verifiers, TRL, OpenEvolve
	$(PYTEST) -m "" $(LAST_FAILED) tests/agents

# A directory each; ONLY="softmax rope" names some of them.
ONLY ?= $(notdir $(patsubst %/warpboard.yml,%,$(wildcard problems/*/warpboard.yml)))

problems: install ## Check the catalogue by its solutions; ONLY="softmax rope" for some
	warpboard problem check $(ONLY:%=problems/%)

# More workers than cores, for tests wait as well; each costs the collection of all tests and servers
# of its own. Kills and outages have limits of half a minute, which four of them beside each other
# came near. What is marked `alone` comes last, one by one.
WORKERS ?= 3
# PART=ranker runs the tests of one folder.
PART ?=
WHERE = $(if $(PART),tests/$(PART))
# A whole tier is held to its budget, tests/budgets.toml.
TIER = $(if $(PART)$(RERUN),,--tier $(1))
# pytest ends with 5 where it found no test, which a folder may well lack.
EMPTY_IS_FINE = $(if $(PART),|| [ $$? = 5 ])
# The folders with a test that runs alone: the others need not be collected once more.
ALONE = tests/agents tests/cheats tests/problems
CROWDED = $(or $(LAST_FAILED),-n $(1) --dist loadscope --no-loadscope-reorder)

test-fast: install ## Tests that start no server, box or platform: a minute
	$(PYTEST) -m "not (server or box or platform or gpu or alone or long)" $(call CROWDED,$(WORKERS)) $(call TIER,fast) $(WHERE)

test: install ## Most tests, some minutes; PART=ranker for one folder, RERUN=1 for what failed
	$(PYTEST) -m "not alone and not long" $(call CROWDED,$(WORKERS)) $(call TIER,test) $(WHERE)

test-long: install ## Kills, outages, compared times; property tests with many examples
	@$(MAKE) --no-print-directory test-crowded
	@$(MAKE) --no-print-directory test-alone

# The two halves: tests beside each other, and then one by one on an idle machine.
test-crowded: install
	$(PYTEST) -m "(long or hypothesis) and not alone" --hypothesis-profile thorough --timeout 600 $(call CROWDED,$(WORKERS)) $(call TIER,long) $(if $(CUDA_LATER),$(CUDA_TESTS:%=--ignore=%)) $(or $(WHERE),tests) $(EMPTY_IS_FINE)

test-alone: install
	$(PYTEST) $(LAST_FAILED) -m "alone" --timeout 600 $(call TIER,alone) $(or $(WHERE),$(ALONE)) $(EMPTY_IS_FINE)

up: install ## The platform on this machine, until Ctrl-C
	warpboard up

demo: install ## Start everything, submit kernels, print the leaderboards, stop
	warpboard demo

optimise-demo: install ## Make a kernel faster by search and by evolution, and rank both results
	warpboard demo --optimise

# NAME="query api" for some of them; each takes minutes.
bench: install ## Run every benchmark whole, and write bench/RESULTS.md
	python -m bench $(NAME)

bench-smoke: install ## Run every benchmark for seconds; the ratios that no machine changes must hold
	python -m bench --smoke

drill: install ## Destroy a platform, restore its backup on other paths, and compare
	python -m tests.system.drill

three-machines: install ## Follow the guide to three machines in network namespaces, as root; kill servers
	pytest -q -rPs -s -m long tests/system/test_three_machines.py

chaos: install ## Kill everything at random for CHAOS_S seconds, then judge the log
	python -m tests.system.chaos --seconds $${CHAOS_S:-1200} $${CHAOS_SEED:+--seed $$CHAOS_SEED}

contract: install ## Ask the API by its own document, thousands of cases
	python -m tests.contract_openapi.asking

clean: ## Remove the environment and the local platform's data
	rm -rf .venv .warpboard
