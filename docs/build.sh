#!/usr/bin/env bash
# Build the site into docs/_build/html; every warning is an error. `docs/build.sh pages` leaves out the gallery's runs,
# which take most of the time, and needs `pip install ".[docs]"` only. The runs need `".[docs,test,neighbors,portfolio]"`.
set -euo pipefail
cd "$(dirname "$0")"
options=()
if [ "${1:-}" = pages ]; then
    options=(-D plot_gallery=0)
fi
OMP_NUM_THREADS=1 python -m sphinx -W --keep-going -b html "${options[@]}" . _build/html
