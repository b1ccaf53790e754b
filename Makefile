# make demo    set up .venv and ask SQL of real data
# make test    set up .venv with the test tools and run every check
# make docs    write the pages of reference from the code, and build all pages in build/docs
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
OLD := .venv-duckdb1

.PHONY: demo test check docs cases-duckdb1 bench clean

demo: $(VENV)/.core
	rm -f dpsql-demo/adult.*
	$(BIN)/dpsql demo dpsql-demo -u alice

# a process more than there are cores: many tests wait for others, or for a terminal
test: check
	$(BIN)/python -m pytest -n 3 --dist worksteal

check: $(VENV)/.test
	$(BIN)/ruff check dpsql tests benchmarks examples docs
	$(BIN)/ruff format --check dpsql tests benchmarks examples docs
	$(BIN)/mypy
	$(BIN)/lint-imports

docs: $(VENV)/.test
	$(BIN)/python -m docs.generate
	$(BIN)/python -m mkdocs build --strict  # --quiet would hide warnings from --strict

# the handed cases again, on the oldest DuckDB that is supported; not what is decided without it
cases-duckdb1: $(OLD)/.test
	$(OLD)/bin/python -m pytest -n 2 --dist worksteal tests/cases tests/query \
		tests/curator/test_duckdb.py tests/curator/test_engines.py tests/curator/test_units.py \
		--ignore tests/cases/test_never_worse.py --ignore tests/cases/test_reuse_never_worse.py \
		--ignore tests/query/test_distinct.py --ignore tests/query/test_linear.py \
		--ignore tests/query/test_canon.py --ignore tests/query/test_predicate.py

bench: $(VENV)/.test
	$(BIN)/python -m benchmarks

$(VENV)/.core: pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	touch $@

$(VENV)/.test: $(VENV)/.core
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable '.[test]'
	touch $@

# not while the other is set up: both would write dpsql.egg-info
$(OLD)/.test: pyproject.toml | $(VENV)/.test
	test -x $(OLD)/bin/python || $(PYTHON) -m venv $(OLD)
	$(OLD)/bin/python -m pip install --quiet --disable-pip-version-check \
		--editable . 'duckdb>=1.5,<1.6' pytest pytest-xdist hypothesis pyarrow pandas
	touch $@

clean:
	rm -rf $(VENV) $(OLD) build dist *.egg-info .mypy_cache .ruff_cache .pytest_cache .hypothesis
