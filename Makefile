# For a newcomer: `make try` (a first picture), then `make reproduce` and `make test`. All create the environment first.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
OUT ?= runs

.PHONY: try reproduce test test-faults test-fuzz test-page test-engines catalogue test-wheel lint types unit mutate clean

# One short run with its page: how far each trained network is from being fooled (FA Figure 3, small).
try: $(VENV)/ready
	$(BIN)/featscope run clusters-fig3 --profile quick --out $(OUT)
	@echo
	@echo "Open the page above in a browser. To go on: . $(BIN)/activate"
	@echo "then: featscope list, featscope show clusters-fig3, featscope check --profile quick"

reproduce: $(VENV)/ready
	$(BIN)/featscope check --profile cpu --out $(OUT)
	$(BIN)/featscope report $(OUT) --out $(OUT)/report.html

test: lint types unit

lint: $(VENV)/ready-dev
	$(BIN)/ruff check src tests tools examples
	$(BIN)/ruff format --check src tests tools examples

types: $(VENV)/ready-dev
	$(BIN)/mypy
	$(BIN)/mypy --strict examples/own_law.py examples/own_claim/own_claim.py

unit: $(VENV)/ready-dev
	$(BIN)/pytest -n 2 --ignore tests/page --ignore tests/engines

# Small errors put into the code: how many does a test notice? docs/testing.md reads the table. LEAST=0.9 makes a smaller share an error.
N ?= 300
SEED ?= 0
PACKAGES ?=
LEAST ?= 0
mutate: $(VENV)/ready-dev
	$(BIN)/python tools/mutate $(PACKAGES) --sample $(N) --seed $(SEED) --least $(LEAST) $(if $(CHOSEN),--chosen $(CHOSEN))

# Kill −9 at 20 moments of each command, two processes at once, a disk that is really full (docs/testing.md).
test-faults: $(VENV)/ready-dev
	FEATSCOPE_FAULTS=20 $(BIN)/pytest -rP tests/core/test_faults.py

# Generated command lines and damaged folders, thousands of them, and 50 as processes (docs/testing.md).
test-fuzz: $(VENV)/ready-dev
	FEATSCOPE_FUZZ=2500 $(BIN)/pytest -rP tests/cli/test_fuzz.py tests/cli/test_fuzz_verbs.py

# What `featscope list` reads without importing anything heavy; a test says when it is not in step.
catalogue: $(VENV)/ready
	$(BIN)/python -m featscope.cli.catalogue

# The report's page and the lab in headless Chromium (apt install chromium): clicks, keyboard, both colours, two widths, axe-core; skipped with a message without it.
test-page: $(VENV)/ready-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,page,lab]"
	$(BIN)/pytest -rsP tests/page

# One sweep on every engine: processes, Ray with a worker killed, submitit's local jobs, and SLURM where it runs (apt install slurm-wlm; tools/one_node_slurm.sh starts one).
test-engines: $(VENV)/ready-dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev,ray,slurm]"
	$(BIN)/pytest -rsP tests/engines

# The package as others get it: the wheel in a fresh environment, away from the sources; examples/own_claim is installed beside it, and is seen.
WHEEL := .wheel
test-wheel:
	rm -rf $(WHEEL)
	$(PYTHON) -m venv $(WHEEL)/env
	$(WHEEL)/env/bin/python -m pip wheel --quiet --disable-pip-version-check --no-deps -w $(WHEEL) . ./examples/own_claim
	$(WHEEL)/env/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(WHEEL)/*.whl
	cd $(WHEEL) && env -u PYTHONPATH env/bin/python ../tools/try_wheel.py

# A new environment takes pip from the interpreter that made it; constraints.txt keeps torch at the tested build.
$(VENV)/ready: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e .
	touch $@

$(VENV)/ready-dev: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[dev]"
	touch $@

clean:
	rm -rf $(VENV) $(WHEEL) docs/_build .mutate .mypy_cache .ruff_cache .pytest_cache .hypothesis

.PHONY: docs docs-links docs-made

# The pages, in docs/_build/html. A warning is an error: a link that leads nowhere, a name that is not there.
SPHINX = $(BIN)/sphinx-build -W -n --keep-going -q
docs: $(VENV)/ready-docs
	$(SPHINX) -b html docs docs/_build/html

# Do the addresses outside answer? Needs the network.
docs-links: $(VENV)/ready-docs
	$(SPHINX) -b linkcheck docs docs/_build/links

# What the repository keeps and code writes: notebooks, the page on reproducibility. RUNS=runs also draws docs/figures from finished runs.
RUNS ?=
docs-made: $(VENV)/ready-dev
	$(BIN)/python tools/docs $(RUNS)

$(VENV)/ready-docs: $(VENV)/ready
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[docs]"
	touch $@
