# Two commands for a stranger: `make demo` and `make test`. Both set up .venv first.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint bench svc-table combining-table klr-table clean

demo: .venv/ready
	$(BIN)/calibrant demo

test: lint
	$(BIN)/python -m pytest -n auto

lint: .venv/ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: .venv/ready
	$(BIN)/python -m bench

svc-table combining-table klr-table: .venv/ready
	$(BIN)/python -m bench.$(subst -,_,$@) --write

# A published experiment in full: `make reproduce-lin2007`.
reproduce-%: .venv/ready
	$(BIN)/python -m calibrant.experiments $* --into experiments

.venv/ready: pyproject.toml
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"
	$(BIN)/python -m pip install --quiet --editable ".[all]" --group dev
	touch $@

clean:
	rm -rf .venv build dist .pytest_cache .mypy_cache .ruff_cache calibrant-report.html
