//! The scripts that prepare a new machine: the check of its tools, and the download of libtorch, with the real pip but
//! wheels of a few bytes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::LazyLock;

use tempfile::TempDir;

#[test]
fn all_missing_tools_are_reported_at_once() {
    let nothing = TempDir::new().unwrap();
    let said = check_tools(nothing.path());
    assert_eq!(said.status.code(), Some(1));
    let said = text(&said.stderr);
    let lines: Vec<&str> = said.lines().collect();
    assert_eq!(lines.len(), 4, "{said}");
    for (line, (tool, advice)) in lines.iter().zip([
        ("cargo", "https://rustup.rs"),
        ("C++", "apt install g++"),
        ("python3", "apt install python3"),
        ("make", "apt install make"),
    ]) {
        assert!(line.contains(tool) && line.contains("missing") && line.contains(advice), "{line}");
    }
}

#[test]
fn an_old_tool_is_named_with_the_version_that_is_needed() {
    let tools = TempDir::new().unwrap();
    program(tools.path(), "cargo", "echo 'cargo 1.63.0 (fd9c4297c 2022-07-01)'");
    program(tools.path(), "c++", "exit 1");
    program(tools.path(), "python3", "echo Python 3.7.3");
    program(tools.path(), "make", "");
    let said = text(&check_tools(tools.path()).stderr);
    let needed = env!("CARGO_PKG_RUST_VERSION");
    assert!(said.contains(&format!("cargo 1.63.0 is too old, {needed} or newer is needed")), "{said}");
    assert!(said.contains("cannot compile C++17"), "{said}");
    assert!(said.contains("python3 3.7.3 is too old"), "{said}");
    assert!(!said.contains("make"), "{said}");
}

#[test]
fn a_python_without_pip_and_venv_is_reported() {
    let tools = TempDir::new().unwrap();
    program(tools.path(), "python3", r#"[ "$1" = --version ] && echo Python 3.11.2 && exit; exit 1"#);
    let said = text(&check_tools(tools.path()).stderr);
    assert!(said.contains("neither pip nor venv") && said.contains("apt install python3-venv"), "{said}");
}

#[test]
fn the_machine_that_runs_this_test_has_the_tools() {
    let said = Command::new(in_repository("scripts/check-tools")).output().unwrap();
    assert!(said.status.success() && said.stderr.is_empty(), "{}", text(&said.stderr));
}

#[test]
fn the_cpu_flavour_installs_what_a_cpu_needs_and_a_second_call_nothing() {
    let into = TempDir::new().unwrap();
    let first = Wheels::good().fetch("cpu", into.path());
    assert!(first.status.success(), "{}", text(&first.stderr));

    let libtorch = into.path().join("cpu");
    let libraries =
        ["libc10.so", "libcudart.so.13", "libcupti.so.13", "libgomp.so.1", "libtorch.so", "libtorch_cpu.so"];
    assert_eq!(names(&libtorch.join("lib")), libraries);
    assert_eq!(fs::read_link(libtorch.join("lib/libtorch.so")).unwrap(), Path::new("libtorch_cpu.so"));
    assert_eq!(
        fs::read_to_string(libtorch.join("lib/libtorch_cpu.so")).unwrap(),
        "torch/lib/libtorch_cpu.so"
    );
    assert_eq!(fs::read_to_string(libtorch.join("build-version")).unwrap(), "2.13.0+cpu\n");
    assert!(libtorch.join("include/torch/headeronly/version.h").is_file());
    assert_eq!(names(into.path()), ["cpu", "lock"], "no wheel and no temporary file is left");

    let second = Wheels::none().fetch("cpu", into.path());
    assert!(second.status.success() && second.stderr.is_empty(), "{}", text(&second.stderr));
}

#[test]
fn the_cuda_flavour_installs_every_library_that_torch_depends_on() {
    let into = TempDir::new().unwrap();
    let fetched = Wheels::good().fetch("cuda", into.path());
    assert!(fetched.status.success(), "{}", text(&fetched.stderr));
    let libraries = names(&into.path().join("cuda/lib"));
    for expected in ["libtorch.so", "libtorch_cuda.so", "libc10_cuda.so", "libcudnn.so.9", "libcupti.so.13"] {
        assert!(libraries.iter().any(|name| name == expected), "{expected} is not among {libraries:?}");
    }
    assert!(!libraries.iter().any(|name| name.contains("python")), "{libraries:?}");
    assert!(!into.path().join("cuda/lib/libtorch.so").is_symlink());
}

#[test]
fn a_failed_download_leaves_nothing_behind() {
    let into = TempDir::new().unwrap();
    let left_over = into.path().join("unfinished-by-a-killed-process");
    fs::create_dir(&left_over).unwrap();

    let failed = Wheels::none().fetch("cpu", into.path());
    assert_eq!(failed.status.code(), Some(1));
    assert!(text(&failed.stderr).contains("pip could not download torch 2.13.0"), "{}", text(&failed.stderr));
    assert_eq!(names(into.path()), ["lock"]);

    assert!(Wheels::good().fetch("cpu", into.path()).status.success());
    assert_eq!(names(into.path()), ["cpu", "lock"]);
}

#[test]
fn what_runs_while_libtorch_is_fetched_ends_with_that() {
    let into = TempDir::new().unwrap();
    let fetch = |into: &Path| {
        let mut command =
            libtorch_script(&["fetch", "cpu", "--meanwhile", "echo begun; sleep 600", "--into"]);
        command.arg(into).env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", &Wheels::good().0);
        // Reads to the end, which is there only when every child is gone.
        command.output().unwrap()
    };
    let fetched = fetch(into.path());
    assert!(fetched.status.success(), "{}", text(&fetched.stderr));
    assert_eq!(text(&fetched.stdout), "begun\n");
    let second = fetch(into.path());
    assert_eq!(text(&second.stdout), "", "nothing is fetched, so nothing runs");
}

#[test]
fn an_unfinished_or_outdated_libtorch_is_replaced() {
    let into = TempDir::new().unwrap();
    fs::create_dir_all(into.path().join("cpu/lib")).unwrap();
    fs::write(into.path().join("cpu/build-version"), "2.12.0+cpu\n").unwrap();
    assert!(Wheels::good().fetch("cpu", into.path()).status.success());
    assert_eq!(fs::read_to_string(into.path().join("cpu/build-version")).unwrap(), "2.13.0+cpu\n");
    assert!(into.path().join("cpu/lib/libtorch_cpu.so").is_file());
}

#[test]
fn pipe_torch_fetch_keeps_only_the_libraries_in_the_cache_of_the_user() {
    let cache = TempDir::new().unwrap();
    let test = crate::support::PipelineTest::empty();
    crate::support::worker_program();
    let mut command = test.command(&["torch", "fetch", "--json"]);
    command.env("XDG_CACHE_HOME", cache.path()).env_remove("PIPE_LIBTORCH");
    command.env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", &Wheels::good().0);
    let ran = crate::support::Ran::finish(command);
    let folder = cache.path().join("pipe/libtorch-2.13.0/cpu");
    assert_eq!(names(&folder), ["build-version", "lib"], "{ran:?}");
    let candidates = &ran.json()["candidates"];
    assert_eq!(candidates[2]["libraries"], folder.join("lib").to_str().unwrap());
    let problem = candidates[2]["problem"].as_str().unwrap();
    assert!(problem.contains("the loader"), "text is not a library: {problem}");
}

#[test]
fn a_given_libtorch_must_be_complete_and_of_the_right_version() {
    let unpack = |version: &str| {
        let dir = TempDir::new().unwrap();
        fs::create_dir_all(dir.path().join("include/torch/headeronly")).unwrap();
        fs::create_dir_all(dir.path().join("lib")).unwrap();
        fs::write(dir.path().join("include/torch/headeronly/version.h"), version_header(version)).unwrap();
        fs::write(dir.path().join("lib/libtorch_cpu.so"), "").unwrap();
        dir
    };
    let check = |dir: &Path| libtorch_script(&["check", dir.to_str().unwrap()]).output().unwrap();

    assert!(check(unpack("2.13.0").path()).status.success());
    let old = check(unpack("2.5.1").path());
    assert_eq!(old.status.code(), Some(1));
    assert!(text(&old.stderr).contains("is version 2.5.1, and 2.13.0 is needed"), "{}", text(&old.stderr));
    let empty = check(TempDir::new().unwrap().path());
    assert_eq!(empty.status.code(), Some(1));
    assert!(text(&empty.stderr).contains("is no libtorch"), "{}", text(&empty.stderr));
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

fn names(folder: &Path) -> Vec<String> {
    let mut names: Vec<String> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

/// Runs the check of the tools on a machine that has only the tools of one folder.
fn check_tools(path: &Path) -> Output {
    let mut sh = Command::new("/bin/sh");
    sh.arg(in_repository("scripts/check-tools")).env_clear().env("PATH", path).output().unwrap()
}

fn program(folder: &Path, name: &str, body: &str) {
    let path = folder.join(name);
    fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
}

fn libtorch_script(arguments: &[&str]) -> Command {
    let mut command = Command::new("python3");
    command.arg(in_repository("scripts/libtorch.py")).args(arguments);
    command
}

fn version_header(version: &str) -> String {
    let parts = ["MAJOR", "MINOR", "PATCH"].iter().zip(version.split('.'));
    parts.map(|(part, number)| format!("#define TORCH_VERSION_{part} {number}\n")).collect()
}

/// A folder of tiny wheels that pip accepts as the real ones. The content of a library is its own name.
struct Wheels(PathBuf);

impl Wheels {
    fn none() -> Self {
        Self(PathBuf::from("/nonexistent"))
    }

    fn good() -> &'static Self {
        static GOOD: LazyLock<Wheels> = LazyLock::new(|| Wheels::make("2.13.0"));
        &GOOD
    }

    fn make(version: &str) -> Self {
        let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join("wheels");
        _ = fs::remove_dir_all(&folder);
        fs::create_dir_all(&folder).unwrap();
        let wheels = Self(folder);
        let arch = std::env::consts::ARCH;
        let header = ("torch/include/torch/headeronly/version.h", version_header(version));
        let libraries = ["c10", "c10_cuda", "torch", "torch_cpu", "torch_cuda", "torch_python", "shm"];
        let libraries = libraries.map(|name| format!("torch/lib/lib{name}.so"));
        let mut files =
            vec![header, ("torch/__init__.py", String::new()), ("torch/lib/libgomp.so.1", String::new())];
        files.extend(libraries.iter().map(|path| (path.as_str(), path.clone())));
        wheels.add(
            "torch",
            version,
            &format!("cp312-cp312-manylinux_2_28_{arch}"),
            &["nvidia-cudnn-cu13"],
            &files,
        );

        for (package, library, tag) in [
            ("nvidia-cuda-runtime", "nvidia/cu13/lib/libcudart.so.13", "manylinux2014"),
            ("nvidia-cuda-cupti", "nvidia/cu13/lib/libcupti.so.13", "manylinux_2_25"),
            ("nvidia-cudnn-cu13", "nvidia/cudnn/lib/libcudnn.so.9", "manylinux_2_27"),
        ] {
            let needs: &[&str] = if package.contains("cudnn") { &["nvidia-cuda-cupti"] } else { &[] };
            let files = [(library, library.to_owned()), ("nvidia/cu13/lib/libextra.a", String::new())];
            wheels.add(package, "13.0.5", &format!("py3-none-{tag}_{arch}"), needs, &files);
        }
        wheels
    }

    fn add(&self, package: &str, version: &str, tag: &str, needs: &[&str], files: &[(&str, String)]) {
        let name = package.replace('-', "_");
        let tree = TempDir::new().unwrap();
        let write = |path: &str, content: &str| {
            let path = tree.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, content).unwrap();
        };
        for (path, content) in files {
            write(path, content);
        }
        let needs: String = needs.iter().map(|need| format!("Requires-Dist: {need}\n")).collect();
        let info = format!("{name}-{version}.dist-info");
        write(
            &format!("{info}/METADATA"),
            &format!("Metadata-Version: 2.1\nName: {package}\nVersion: {version}\n{needs}"),
        );
        write(&format!("{info}/WHEEL"), &format!("Wheel-Version: 1.0\nRoot-Is-Purelib: false\nTag: {tag}\n"));
        write(&format!("{info}/RECORD"), "");
        let wheel = self.0.join(format!("{name}-{version}-{tag}.whl"));
        let mut zip = Command::new("python3");
        zip.current_dir(tree.path()).args(["-m", "zipfile", "-c"]).arg(&wheel).args(names(tree.path()));
        assert!(zip.status().unwrap().success());
    }

    fn fetch(&self, flavour: &str, into: &Path) -> Output {
        let mut command = libtorch_script(&["fetch", flavour, "--into"]);
        command.arg(into).env("PIP_NO_INDEX", "1").env("PIP_FIND_LINKS", &self.0);
        command.output().unwrap()
    }
}
