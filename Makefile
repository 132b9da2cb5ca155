# Everything runs in .venv, made here on first use: nothing but Python (3.11 or later) and make is needed.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
DEMO_READY := $(VENV)/.demo-ready
READY := $(VENV)/.ready
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check

# Processes give the parallelism; threads of BLAS inside them would only fight over the cores.
export OPENBLAS_NUM_THREADS ?= 1
PYTEST := $(BIN)/python -m pytest -n 2 --dist worksteal $(if $(SEED),--shuffle=$(SEED))
LIT := $(BIN)/lit -j2 -sv test/lit

.PHONY: help demo quick test test-all test-processors test-versions fuzz lint types pages docs bench

help: ## what there is
	@sed -n 's/^\([a-z-]*\):.* ## /\1:/p' Makefile | while IFS=: read -r name text; do printf '%-16s %s\n' "$$name" "$$text"; done

demo: $(DEMO_READY) ## .venv with what users need, and a small network quantized: a minute
	$(BIN)/python examples/digits/demo.py

quick: $(READY) ## style, types and tests of what differs from the main branch: half a minute
	$(BIN)/python test/quick.py

# In an order by chance with SEED=NUMBER.
test: $(READY) ## the fast tests: about five minutes
	$(LIT)
	$(PYTEST) -m "not slow and not versions"

# What fresh seeds find is printed, and work for later: it does not fail the change that happens to be tested.
test-all: $(READY) ## every test and 680 random graphs: half an hour
	$(LIT)
	$(PYTEST) -m "not versions"
	$(BIN)/python test/fuzz --graphs 500 --seed 0
	-$(BIN)/python test/fuzz --graphs 180 --seed fresh

NETWORKS ?= 10
test-processors: $(READY) ## onnxruntime on emulated processors, those without VNNI and those of Arm among them: a minute
	$(BIN)/python test/processors $(NETWORKS)

test-versions: $(READY) ## the oldest and the newest versions that pyproject.toml allows: some ten gigabytes, which are not kept
	$(BIN)/python -m pytest -n 0 test/unit/test_versions.py

fuzz: $(READY) ## random graphs until Ctrl-C; what fails is kept in out/fuzz
	$(BIN)/python test/fuzz --forever --out out/fuzz

lint: $(READY) ## ruff
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(READY) ## pyright: strict in compiler, standard elsewhere
	$(BIN)/pyright --threads 2

# Figures come from `make bench` and from the scripts that pages of figures name.
pages: $(READY) ## the generated parts of pages, written again
	set -e; for part in architecture commands fusions keywords linalg passes reference; do $(BIN)/python docs/generate/$$part.py; done
	AMCT_UPDATE=1 $(BIN)/python -m pytest -n 0 -m page

docs: $(READY) ## the documentation as a site, in out/site
	$(BIN)/mkdocs build

# Threads are part of what is measured: what stands above for tests does not hold here.
bench: export OPENBLAS_NUM_THREADS =
bench: $(READY) ## docs/measured/benchmarks.md, measured again
	$(BIN)/python benchmarks/page.py

$(DEMO_READY): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(INSTALL) --editable '.[images,onnxruntime,report]'
	touch $@

# tf_keras asks for the package `tensorflow`; tensorflow-cpu is the same without what is for GPUs.
$(READY): $(DEMO_READY)
	$(INSTALL) --editable '.[all,dev]' --editable packages/linalg --editable packages/training
	$(INSTALL) --no-deps 'tf_keras==2.21.*'
	touch $@
