#!/usr/bin/env python3
"""Extracts libtorch from the PyPI wheels of PyTorch, or checks an existing libtorch.

    libtorch.py fetch cpu|cuda [--into DIR]        downloads into DIR/<flavour> if it is not there (DIR: .libtorch);
                                                   `pipe torch fetch` does this without headers: --libraries-only;
                                                   `make build` compiles until it is there: --meanwhile COMMAND
    libtorch.py unpack cpu|cuda DEST WHEEL...      extracts it from wheels that were downloaded by hand
    libtorch.py check DIR                          checks that the libtorch in DIR has the version that we build for

A libtorch is a folder with `lib`, `include` and `build-version`. torch-sys reads `build-version`
too. The folder gets its name only when it is complete, so an interrupted fetch can simply be
repeated.
"""

import argparse
import contextlib
import fcntl
import fnmatch
import os
import platform
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

# The version that the `tch` in Cargo.toml requires; it accepts no other.
VERSION = "2.13.0"

# There is one wheel per version of CPython. We fix the version, so that every machine gets the same
# libtorch, whatever its python3.
WHEEL_PYTHON = "3.12"

# PyPI's libtorch_cpu.so is linked to these two small libraries of CUDA, even on machines without a GPU.
CPU_REQUIREMENTS = ["nvidia-cuda-runtime==13.0.*", "nvidia-cuda-cupti==13.0.*"]
CPU_NVIDIA_LIBRARIES = ["libcudart.so*", "libcupti.so*"]

NEVER = ["libtorch_python.so*", "libshm.so*", "libtorch_global_deps.so*"]
ONLY_CUDA = ["*cuda*", "*nvrtc*", "*nvshmem*", "libtorch.so"]


def main():
    for number in (signal.SIGTERM, signal.SIGHUP):
        # The default action would skip the `finally` that ends the command of `--meanwhile`.
        signal.signal(number, lambda number, _frame: sys.exit(128 + number))
    parser = argparse.ArgumentParser(description="Fetch, unpack or check libtorch.")
    commands = parser.add_subparsers(dest="command", required=True)
    fetching = commands.add_parser("fetch")
    fetching.add_argument("flavour", choices=["cpu", "cuda"])
    fetching.add_argument("--into", type=Path, default=ROOT / ".libtorch")
    fetching.add_argument("--libraries-only", action="store_true", help="without headers: enough to run")
    fetching.add_argument("--meanwhile", metavar="COMMAND", help="runs while it is fetched, and ends with that")
    unpacking = commands.add_parser("unpack")
    unpacking.add_argument("flavour", choices=["cpu", "cuda"])
    unpacking.add_argument("dest", type=Path)
    unpacking.add_argument("wheels", type=Path, nargs="+")
    checking = commands.add_parser("check")
    checking.add_argument("dir", type=Path)
    options = parser.parse_args()

    try:
        if options.command == "fetch":
            fetch(options.flavour, options.into, options.libraries_only, options.meanwhile)
        elif options.command == "unpack":
            unpack(options.flavour, options.wheels, options.dest)
        else:
            check(options.dir)
    except OSError as error:
        sys.exit(f"libtorch: {error}")
    except KeyboardInterrupt:
        sys.exit("libtorch: interrupted; the next call repeats the download")


def fetch(flavour, into, libraries_only, meanwhile):
    dest = into / flavour
    if is_complete(dest):
        return
    into.mkdir(parents=True, exist_ok=True)
    with only_one(into / "lock"):
        if is_complete(dest):
            return
        for left_over in into.glob("unfinished-*"):
            shutil.rmtree(left_over, ignore_errors=True)
        with tempfile.TemporaryDirectory(prefix="unfinished-", dir=into) as scratch, beside(meanwhile):
            scratch = Path(scratch)
            size = {"cpu": "540 MB", "cuda": "several GB"}[flavour]
            say(f"libtorch {VERSION} ({flavour}) is being fetched into {dest}, once: {size} to download")
            wheels = download(flavour, scratch)
            unpack(flavour, wheels, scratch / "new")
            if libraries_only:
                shutil.rmtree(scratch / "new" / "include")
            shutil.rmtree(dest, ignore_errors=True)
            (scratch / "new").rename(dest)
    say(f"libtorch {VERSION} ({flavour}) is in {dest}")


def is_complete(dest):
    with contextlib.suppress(FileNotFoundError):
        return (dest / "build-version").read_text().split("+")[0].strip() == VERSION
    return False


@contextlib.contextmanager
def only_one(lock):
    """Makes concurrent calls fetch only once: the second call waits, then finds the work done."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@contextlib.contextmanager
def beside(command):
    """Runs a shell command while its block runs, and then ends it with all its children."""
    if command is None:
        yield
        return
    process = subprocess.Popen(command, shell=True, start_new_session=True)
    try:
        yield
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGTERM)
        process.wait()


def download(flavour, scratch):
    wheels = scratch / "wheels"
    machine = platform.machine()
    if platform.system() != "Linux" or machine not in ("x86_64", "aarch64"):
        sys.exit(
            f"libtorch: PyPI has no wheel for {platform.system()} on {machine}; "
            f"install libtorch {VERSION} yourself and name its folder: LIBTORCH=/path/to/libtorch make build"
        )
    platforms = [f"manylinux_2_{minor}_{machine}" for minor in range(28, 16, -1)] + [f"manylinux2014_{machine}"]
    command = [*pip(scratch), "download", "--no-cache-dir", "--disable-pip-version-check"]
    command += ["--only-binary=:all:", "--implementation=cp", f"--python-version={WHEEL_PYTHON}"]
    command += [f"--platform={name}" for name in platforms]
    command += ["--dest", str(wheels), f"torch=={VERSION}"]
    if flavour == "cpu":
        command += ["--no-deps", *CPU_REQUIREMENTS]
    if subprocess.call(command, stdout=sys.stderr) != 0:
        sys.exit(
            f"libtorch: pip could not download torch {VERSION} (see above). Call make again when pip can reach PyPI or a "
            "mirror; it repeats the download. Or name a libtorch that you already have: "
            "LIBTORCH=/path/to/libtorch make build"
        )
    return sorted(wheels.glob("*.whl"))


def pip(scratch):
    """Returns the command of the installed pip, or of one in a temporary environment if there is none."""
    own = [sys.executable, "-m", "pip"]
    if subprocess.call([*own, "--version"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL) == 0:
        return own
    environment = scratch / "pip"
    made = subprocess.run([sys.executable, "-m", "venv", str(environment)], capture_output=True, text=True)
    if made.returncode != 0:
        sys.exit("libtorch: this python3 has neither pip nor venv; run `apt install python3-venv`")
    return [str(environment / "bin" / "python"), "-m", "pip"]


def unpack(flavour, wheels, dest):
    lib = dest / "lib"
    lib.mkdir(parents=True)
    for wheel in wheels:
        with zipfile.ZipFile(wheel) as archive:
            for member in archive.infolist():
                place = placed(flavour, member.filename)
                if place is None or member.is_dir():
                    continue
                target = dest / place
                target.parent.mkdir(parents=True, exist_ok=True)
                with archive.open(member) as source, target.open("wb") as copy:
                    shutil.copyfileobj(source, copy, 1 << 20)
    if flavour == "cpu":
        # The wheel's own libtorch.so would pull in libtorch_cuda.so.
        (lib / "libtorch.so").symlink_to("libtorch_cpu.so")
    for needed in ["libtorch_cpu.so", "libc10.so"] + (["libtorch_cuda.so"] if flavour == "cuda" else []):
        if not (lib / needed).exists():
            sys.exit(f"libtorch: no {needed} in {', '.join(wheel.name for wheel in wheels)}")
    found = version_in_headers(dest)
    if found != VERSION:
        sys.exit(f"libtorch: the wheels contain version {found}, and {VERSION} is needed")
    (dest / "build-version").write_text(f"{VERSION}+{flavour}\n")


def placed(flavour, member):
    """Returns the path of a file of a wheel in the new libtorch, or None if the file is not needed."""
    parts = Path(member).parts
    if ".." in parts or os.path.isabs(member):
        return None
    if parts[:2] == ("torch", "include"):
        return Path(*parts[1:])
    name = parts[-1]
    if ".so" not in name or any(fnmatch.fnmatch(name, pattern) for pattern in NEVER):
        return None
    if parts[:-1] == ("torch", "lib") or parts[0] == "torch.libs":
        wanted = flavour == "cuda" or not any(fnmatch.fnmatch(name, pattern) for pattern in ONLY_CUDA)
    elif parts[0] == "nvidia" and parts[-2] == "lib":
        wanted = flavour == "cuda" or any(fnmatch.fnmatch(name, pattern) for pattern in CPU_NVIDIA_LIBRARIES)
    else:
        wanted = False
    return Path("lib", name) if wanted else None


def check(libtorch):
    if not (libtorch / "lib" / "libtorch_cpu.so").exists() or not (libtorch / "include").is_dir():
        sys.exit(
            f"libtorch: LIBTORCH={libtorch} is no libtorch: it lacks lib/libtorch_cpu.so or include/. "
            f"Name a folder with libtorch {VERSION}, or unset LIBTORCH and let `make libtorch` fetch it"
        )
    found = version_in_headers(libtorch)
    if found != VERSION:
        sys.exit(
            f"libtorch: LIBTORCH={libtorch} is version {found or 'unknown'}, and {VERSION} is needed. "
            "Name another folder, or unset LIBTORCH and let `make libtorch` fetch the right one"
        )


def version_in_headers(libtorch):
    """Returns the version in the headers, which our C++ is compiled against wherever the libtorch came from."""
    for header in ["torch/headeronly/version.h", "torch/csrc/api/include/torch/version.h"]:
        with contextlib.suppress(FileNotFoundError):
            text = (libtorch / "include" / header).read_text()
            numbers = [re.search(rf"define TORCH_VERSION_{part} (\d+)", text) for part in ("MAJOR", "MINOR", "PATCH")]
            if all(numbers):
                return ".".join(number[1] for number in numbers)
    return None


def say(sentence):
    print(sentence, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
