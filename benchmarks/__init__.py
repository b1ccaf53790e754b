"""Speed and accuracy beside plain DuckDB and beside theory: `python -m benchmarks`."""
