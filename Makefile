# make demo    set up .venv and ask SQL of real data
# make test    set up .venv with the test tools and run every check
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLD := .venv-duckdb1

.PHONY: demo test check cases-duckdb1 bench clean

demo: $(VENV)/.core
	$(BIN)/dpsql demo dpsql-demo -u alice

test: check
	$(BIN)/python -m pytest -n 2 --dist worksteal

check: $(VENV)/.test
	$(BIN)/ruff check dpsql tests benchmarks examples
	$(BIN)/ruff format --check dpsql tests benchmarks examples
	$(BIN)/mypy
	$(BIN)/lint-imports

# the handed cases again, on the oldest DuckDB that is supported
cases-duckdb1: $(OLD)/.test
	$(OLD)/bin/python -m pytest tests/cases tests/query tests/curator/test_duckdb.py \
		tests/curator/test_engines.py tests/curator/test_units.py

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

$(VENV)/.core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

$(OLD)/.test: pyproject.toml
	test -x $(OLD)/bin/python || $(PYTHON) -m venv $(OLD)
	$(OLD)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable . 'duckdb>=1.5,<1.6' pytest hypothesis pyarrow pandas
	touch $@

clean:
	rm -rf $(VENV) $(OLD) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
