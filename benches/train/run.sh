#!/bin/sh
# Compares one training step with PyTorch's. PyTorch goes into .bench-env, once.
# Usage: benches/train/run.sh [THREADS] [STEPS]
set -eu
cd "$(dirname "$0")/../.."
if [ ! -x .bench-env/bin/python ] || ! .bench-env/bin/python -c 'import torch' 2>/dev/null; then
    python3 -m venv .bench-env
    .bench-env/bin/pip install --quiet torch==2.13.0 numpy
fi
bench=$(cargo build --release --bench train --message-format json 2>/dev/null |
    sed -n 's/.*"executable":"\([^"]*\/train-[^"]*\)".*/\1/p' | tail -1)
exec .bench-env/bin/python benches/train/compare.py "$bench" "${1:-2}" "${2:-60}"
