"""Shared code of the benchmarks: a Python with the libraries to compare with, and the output of programs that print values."""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SPARSE = ["numpy==2.4.6", "scipy==1.17.1", "scikit-learn==1.9.1"]


def sparse_peers():
    """Returns a Python with numpy, scipy and scikit-learn, installed in .bench-env/sparse/."""
    env = ROOT / ".bench-env" / "sparse"
    python, done = env / "bin" / "python", env / "installed"
    if not done.exists() or done.read_text().split() != SPARSE:
        venv.create(env, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run(pip + SPARSE).returncode != 0:
            sys.exit("numpy, scipy and scikit-learn could not be installed; the benchmark needs a network connection once")
        done.write_text("\n".join(SPARSE))
    return python


def lines(command):
    """Runs a program and returns the numbers that it prints, by name."""
    run = subprocess.run([str(word) for word in command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"{command[0]} failed")
    words = [line.split() for line in run.stdout.splitlines() if line.strip()]
    return {name: [float(value) for value in values] for name, *values in words}
