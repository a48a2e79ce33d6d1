"""What the documentation's numbers are measured with: ``python -m benchmarks`` lists
the benchmarks.

A benchmark is a module with ``DURATION``, ``NEEDS_DATA``, ``run(quick, data)``, which
measures, and ``tables(stored)``, which renders what was measured as Markdown. What it
measured is stored in ``results/NAME.json``. The pages of the documentation include its
tables between ``<!-- table: NAME/TABLE -->`` and ``<!-- end -->``.
"""
