#!/usr/bin/env bash
# Build the site into docs/_build/html; every warning is an error. `docs/build.sh pages` leaves out the gallery's runs,
# which take most of the time, and the output of the guide's pages. Both need `pip install ".[docs]"`.
set -euo pipefail
cd "$(dirname "$0")"
options=()
if [ "${1:-}" = pages ]; then
    options=(-D plot_gallery=0 -D nb_execution_mode=off)
fi
# pages import the benchmarks, which are not installed; their processes run in other folders
export PYTHONPATH="${PWD%/docs}${PYTHONPATH:+:$PYTHONPATH}" OMP_NUM_THREADS=1
python -m sphinx -W --keep-going -b html "${options[@]}" . _build/html
