"""What the benchmarks share: a Python with their peers, and programs that print figures."""

import subprocess
import sys
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SPARSE = ["numpy==2.4.6", "scipy==1.17.1", "scikit-learn==1.9.1"]


def sparse_peers():
    """A Python with numpy, scipy and scikit-learn, in .bench-env/sparse/."""
    env = ROOT / ".bench-env" / "sparse"
    python, done = env / "bin" / "python", env / "installed"
    if not done.exists() or done.read_text().split() != SPARSE:
        venv.create(env, with_pip=True, clear=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        if subprocess.run(pip + SPARSE).returncode != 0:
            sys.exit("numpy, scipy and scikit-learn could not be installed: the benchmark needs the network once")
        done.write_text("\n".join(SPARSE))
    return python


def lines(command):
    """What a program prints: numbers by name."""
    run = subprocess.run([str(word) for word in command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    if run.returncode != 0:
        sys.exit(f"{command[0]} failed")
    words = [line.split() for line in run.stdout.splitlines() if line.strip()]
    return {name: [float(value) for value in values] for name, *values in words}
