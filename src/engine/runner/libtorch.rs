//! Finds `pipe-worker`, and the libtorch to start it with.
//!
//! `pipe` asks the loader which libraries the worker would get before it starts it: a libtorch that is missing or wrong is
//! reported in our words, and everything that needs no libtorch works without one.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Read;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde::Serialize;

use super::machine;
use pipe_core::captured::captured;

/// The version that the worker is built for; it works with no other.
pub const VERSION: &str = "2.13.0";

/// The variable that names the folder of a libtorch.
const VARIABLE: &str = "PIPE_LIBTORCH";
/// The library that every libtorch has and the worker needs.
const LIBRARY: &str = "libtorch_cpu.so";
/// The library that runs networks on GPUs.
const CUDA_LIBRARY: &str = "libtorch_cuda.so";
/// The variable with the directories that the loader searches first.
const SEARCHED: &str = "LD_LIBRARY_PATH";
/// The variable with libraries that the loader loads in addition.
const PRELOADED: &str = "LD_PRELOAD";

/// Reads an environment variable; one that is empty counts as not set.
type Variables<'a> = &'a dyn Fn(&str) -> Option<OsString>;

/// A place where libtorch was looked for.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Candidate {
    /// What makes the place a candidate.
    pub source: &'static str,
    /// The directory with the libraries, if there is one.
    pub libraries: Option<PathBuf>,
    /// Why it cannot be used; `None` for the one that is used, and for those after it, which were not tried.
    pub problem: Option<String>,
    pub used: bool,
}

/// What a search for the worker and its libtorch found.
#[derive(Debug)]
pub struct Search {
    pub program: Option<PathBuf>,
    /// In the order in which they are tried; empty if the worker needs no libtorch.
    pub candidates: Vec<Candidate>,
    /// The worker, or sentences that say what is missing and what to do.
    pub worker: Result<Worker, String>,
}

/// `pipe-worker`, and the variables that it is started with.
#[derive(Debug, Clone)]
pub struct Worker {
    program: PathBuf,
    variables: Vec<(&'static str, OsString)>,
}

impl Worker {
    /// Finds the worker of this `pipe`, with its libtorch, or returns sentences that say what is missing and what to do.
    pub fn find(pipe: &Path) -> Result<Self, String> {
        Search::of(pipe).worker
    }

    /// Returns a command that starts the worker.
    pub fn command(&self) -> Command {
        let mut command = Command::new(&self.program);
        command.envs(self.variables.iter().map(|(name, value)| (name, value)));
        command
    }
}

impl Search {
    /// Looks for the worker of this `pipe`, and for libtorch.
    pub fn of(pipe: &Path) -> Self {
        Self::with(pipe, &|name| std::env::var_os(name).filter(|value| !value.is_empty()))
    }

    fn with(pipe: &Path, variables: Variables) -> Self {
        let Some(program) = worker_program(pipe, variables) else {
            let worker = Err(format!(
                "`pipe-worker` is neither beside `{}` nor on PATH; `make build` builds both",
                pipe.display()
            ));
            return Self { program: None, candidates: Vec::new(), worker };
        };
        let own = Loaded::by(&program, None);
        if own.needs_no_libtorch() {
            let worker = Ok(Worker { program: program.clone(), variables: Vec::new() });
            return Self { program: Some(program), candidates: Vec::new(), worker };
        }
        let mut candidates = vec![named(variables), of_python(pipe, variables), fetched(variables)];
        let own_place = own.libtorch.as_deref().and_then(Path::parent).map(Path::to_owned);
        candidates.push(Candidate::new("the libtorch of the build", own_place, "it is no longer there"));
        let mut worker = None;
        for (position, candidate) in candidates.iter_mut().enumerate() {
            let Some(libraries) = &candidate.libraries else { continue };
            match usable(&program, libraries, variables) {
                Ok(found) => {
                    (candidate.used, worker) = (true, Some(Ok(found)));
                    break;
                }
                Err(problem) if position == 0 => {
                    let refused = format!(
                        "{VARIABLE} names a libtorch that cannot be used, in `{}`: {problem}; name another folder, \
                         or unset {VARIABLE}",
                        libraries.display()
                    );
                    (candidate.problem, worker) = (Some(problem), Some(Err(refused)));
                    break;
                }
                Err(problem) => candidate.problem = Some(problem),
            }
        }
        let worker = worker.unwrap_or_else(|| Err(nothing_found(&candidates)));
        Self { program: Some(program), candidates, worker }
    }
}

/// Returns a message that says where libtorch was looked for, and what to do.
fn nothing_found(candidates: &[Candidate]) -> String {
    let mut message = format!("libtorch {VERSION} is needed, and it was not found:\n");
    for Candidate { source, libraries, problem, .. } in candidates {
        let place = libraries.as_ref().map(|place| format!(", `{}`", place.display())).unwrap_or_default();
        message.push_str(&format!("  {source}{place}: {}\n", problem.as_deref().unwrap_or_default()));
    }
    message
        + &format!("`pipe torch fetch` downloads it; or name the folder of one that you have in {VARIABLE}")
}

impl Candidate {
    /// A place to look at; `absence` says what it means if there is none.
    fn new(source: &'static str, libraries: Option<PathBuf>, absence: impl Into<String>) -> Self {
        let problem = libraries.is_none().then(|| absence.into());
        Self { source, libraries, problem, used: false }
    }
}

/// The folder that the user names.
fn named(variables: Variables) -> Candidate {
    let libraries = variables(VARIABLE).map(|folder| PathBuf::from(folder).join("lib"));
    Candidate::new(VARIABLE, libraries, "it is not set")
}

/// The `torch` in the active Python environment, or else in the one that `pipe` is installed in.
fn of_python(pipe: &Path, variables: Variables) -> Candidate {
    let active = ["VIRTUAL_ENV", "CONDA_PREFIX"].into_iter().filter_map(variables).map(PathBuf::from);
    let own = pipe.parent().and_then(Path::parent).map(Path::to_owned);
    let libraries = active.chain(own).find_map(|environment| torch_in(&environment));
    let absence = "there is no `torch` in the active one, nor in the one that `pipe` is installed in";
    Candidate::new("a Python environment", libraries, absence)
}

fn torch_in(environment: &Path) -> Option<PathBuf> {
    let versions = fs::read_dir(environment.join("lib")).ok()?.flatten();
    let pythons = versions.filter(|entry| entry.file_name().to_string_lossy().starts_with("python3"));
    pythons.map(|entry| entry.path().join("site-packages/torch/lib")).find(|libraries| libraries.is_dir())
}

/// What `pipe torch fetch` has fetched. The one for GPUs also works without a GPU.
fn fetched(variables: Variables) -> Candidate {
    let source = "the cache of the user";
    let Some(directory) = directory_in_cache(variables) else {
        return Candidate::new(source, None, "HOME is not set");
    };
    let folders = ["cuda", "cpu"].map(|flavour| directory.join(flavour));
    let libraries = folders.into_iter().find(|folder| folder.is_dir()).map(|folder| folder.join("lib"));
    Candidate::new(source, libraries, format!("nothing was fetched into `{}`", directory.display()))
}

/// Returns the directory that `pipe torch fetch` fills, with one folder per flavour; `None` if there is no home directory.
pub fn fetch_directory() -> Option<PathBuf> {
    directory_in_cache(&|name| std::env::var_os(name).filter(|value| !value.is_empty()))
}

fn directory_in_cache(variables: Variables) -> Option<PathBuf> {
    let cache = variables("XDG_CACHE_HOME").map(PathBuf::from);
    let cache = cache.or_else(|| variables("HOME").map(|home| PathBuf::from(home).join(".cache")));
    Some(cache?.join("pipe").join(format!("libtorch-{VERSION}")))
}

/// Returns how to start the worker with these libraries, or a sentence if that does not work.
fn usable(program: &Path, libraries: &Path, variables: Variables) -> Result<Worker, String> {
    if !libraries.join(LIBRARY).is_file() {
        return Err(format!("there is no `{LIBRARY}`"));
    }
    let version = libraries.parent().and_then(version_of);
    if let Some(version) = version.as_ref().filter(|version| *version != VERSION) {
        return Err(format!("it is version {version}, and {VERSION} is needed"));
    }
    let in_front = |path: &Path, variable: &str| {
        let mut paths = path.as_os_str().to_owned();
        if let Some(before) = variables(variable) {
            paths.push(":");
            paths.push(before);
        }
        paths
    };
    let searched = in_front(libraries, SEARCHED);
    // Without a version, only the symbols show whether it is the right one. Looking them all up takes a while.
    let loaded = Loaded::looking(program, Some(&searched), version.is_none());
    if let Some(problem) = loaded.problem() {
        return Err(problem);
    }
    let mut set = vec![(SEARCHED, searched)];
    // Its kernels register themselves when it is loaded. A worker that was built without CUDA does not ask for it.
    let cuda = libraries.join(CUDA_LIBRARY);
    if !loaded.has_cuda && cuda.is_file() && !machine::gpus().is_empty() {
        set.push((PRELOADED, in_front(&cuda, PRELOADED)));
    }
    Ok(Worker { program: program.to_owned(), variables: set })
}

/// Returns the version of the libtorch in a folder, if a file in it says so.
fn version_of(folder: &Path) -> Option<String> {
    let read = |name: &str| fs::read_to_string(folder.join(name)).ok();
    let of_python = |text: String| {
        let line = text.lines().find_map(|line| line.strip_prefix("__version__ = "))?;
        Some(line.trim_matches(['\'', '"']).to_owned())
    };
    let version = read("build-version").or_else(|| read("version.py").and_then(of_python))?;
    Some(version.split('+').next().unwrap_or_default().trim().to_owned())
}

/// The libraries that the loader would give to a program.
#[derive(Debug, Default)]
struct Loaded {
    libtorch: Option<PathBuf>,
    has_cuda: bool,
    missing: Vec<String>,
    /// Functions that the program needs and no library has.
    undefined: usize,
    /// What the loader complains about.
    complaint: String,
}

impl Loaded {
    /// Asks the loader, which does not start the program.
    fn by(program: &Path, searched: Option<&OsString>) -> Self {
        Self::looking(program, searched, false)
    }

    /// Asks the loader, if asked for also whether the libraries have all functions that the program needs.
    fn looking(program: &Path, searched: Option<&OsString>, for_functions: bool) -> Self {
        let mut magic = [0; 4];
        let is_elf = File::open(program).and_then(|mut file| file.read_exact(&mut magic)).is_ok();
        if !is_elf || magic != *b"\x7fELF" {
            return Self::default();
        }
        let mut command = Command::new(program);
        command.env("LD_TRACE_LOADED_OBJECTS", "1");
        if let Some(searched) = searched {
            command.env(SEARCHED, searched);
        }
        if for_functions {
            command.env("LD_WARN", "yes").env("LD_BIND_NOW", "yes");
        }
        let Ok(output) = captured(&mut command) else { return Self::default() };
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let (undefined, complaints): (Vec<&str>, Vec<&str>) =
            said.trim().lines().partition(|line| line.starts_with("undefined symbol: "));
        let mut loaded =
            Self { undefined: undefined.len(), complaint: complaints.join("\n"), ..Self::default() };
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Some((name, place)) = line.trim().split_once(" => ") else { continue };
            if place.starts_with("not found") {
                loaded.missing.push(name.to_owned());
            } else if name == LIBRARY {
                loaded.libtorch = place.rsplit_once(" (").map(|(path, _)| PathBuf::from(path));
            }
            loaded.has_cuda |= name == CUDA_LIBRARY;
        }
        loaded
    }

    fn needs_no_libtorch(&self) -> bool {
        self.libtorch.is_none() && !self.missing.iter().any(|name| name == LIBRARY)
    }

    fn problem(&self) -> Option<String> {
        match &self.missing[..] {
            [] if self.undefined > 0 => Some(format!(
                "it is not version {VERSION}: {} functions that the worker needs are missing in it",
                self.undefined
            )),
            [] if self.complaint.is_empty() => None,
            [] => Some(format!("the loader refuses it: {}", self.complaint)),
            missing => Some(format!("it needs {}, which the loader does not find", missing.join(", "))),
        }
    }
}

/// Returns the `pipe-worker` beside this `pipe`, or else the one on PATH.
fn worker_program(pipe: &Path, variables: Variables) -> Option<PathBuf> {
    let path = variables("PATH").unwrap_or_default();
    let on_path = std::env::split_paths(&path).map(|directory| directory.join("pipe-worker"));
    std::iter::once(pipe.with_file_name("pipe-worker")).chain(on_path).find(|candidate| candidate.is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A directory with a `pipe-worker` that needs `libtorch_cpu.so`, which is nowhere.
    struct Machine(tempfile::TempDir);

    impl Machine {
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let path = |name: &str| directory.path().join(name);
            fs::write(path("torch.c"), "int torch(void) { return 0; }\n").unwrap();
            fs::write(path("main.c"), "int torch(void); int main(void) { return torch(); }\n").unwrap();
            let cc = |arguments: &[&str]| {
                let status = Command::new("cc").current_dir(&directory).args(arguments).status();
                assert!(status.is_ok_and(|status| status.success()), "cc {arguments:?}");
            };
            fs::create_dir_all(path("build/lib")).unwrap();
            fs::create_dir(path("bin")).unwrap();
            cc(&[
                "-shared",
                "-fPIC",
                "-Wl,-soname,libtorch_cpu.so",
                "-o",
                "build/lib/libtorch_cpu.so",
                "torch.c",
            ]);
            let rpath = format!("-Wl,-rpath,{}", path("build/lib").display());
            cc(&["main.c", "-Lbuild/lib", "-l:libtorch_cpu.so", &rpath, "-o", "bin/pipe-worker"]);
            Self(directory)
        }

        fn path(&self, name: &str) -> PathBuf {
            self.0.path().join(name)
        }

        /// Copies the libtorch of the build.
        fn libtorch(&self, folder: &str, version_file: &str, version: &str) -> PathBuf {
            let folder = self.path(folder);
            fs::create_dir_all(folder.join("lib")).unwrap();
            fs::copy(self.path("build/lib/libtorch_cpu.so"), folder.join("lib/libtorch_cpu.so")).unwrap();
            fs::write(folder.join(version_file), version).unwrap();
            folder
        }

        fn search(&self, set: &[(&str, PathBuf)]) -> Search {
            let variables = |name: &str| {
                let home = (name == "HOME").then(|| self.path("home").into());
                set.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into()).or(home)
            };
            Search::with(&self.path("bin/pipe"), &variables)
        }
    }

    fn used(search: &Search) -> (&str, &Path) {
        let used: Vec<&Candidate> = search.candidates.iter().filter(|candidate| candidate.used).collect();
        let [Candidate { source, libraries: Some(libraries), .. }] = used[..] else { panic!("{search:?}") };
        let worker = search.worker.as_ref().unwrap();
        assert!(worker.command().status().unwrap().success());
        (source, libraries)
    }

    #[test]
    fn libtorch_is_taken_from_the_first_place_that_has_it() {
        let machine = Machine::new();
        let (source, libraries) = {
            let search = machine.search(&[]);
            let (source, libraries) = used(&search);
            (source.to_owned(), libraries.to_owned())
        };
        assert_eq!((source.as_str(), libraries), ("the libtorch of the build", machine.path("build/lib")));

        let cache = machine.libtorch("home/.cache/pipe/libtorch-2.13.0/cpu", "build-version", "2.13.0+cpu\n");
        assert_eq!(used(&machine.search(&[])).1, cache.join("lib"));

        let torch = "venv/lib/python3.12/site-packages/torch";
        let torch = machine.libtorch(torch, "version.py", "__version__ = '2.13.0+cu130'\n");
        let active = ("VIRTUAL_ENV", machine.path("venv"));
        assert_eq!(used(&machine.search(std::slice::from_ref(&active))).1, torch.join("lib"));

        let own = machine.libtorch("mine", "build-version", "2.13.0\n");
        let search = machine.search(&[active, (VARIABLE, own.clone())]);
        assert_eq!(used(&search), (VARIABLE, own.join("lib").as_path()));
    }

    #[test]
    fn a_torch_of_another_version_is_passed_over_unless_the_user_names_it() {
        let machine = Machine::new();
        let old = machine.libtorch(
            "venv/lib/python3.12/site-packages/torch",
            "version.py",
            "__version__ = '2.5.1'\n",
        );
        let search = machine.search(&[("VIRTUAL_ENV", machine.path("venv"))]);
        assert_eq!(used(&search).0, "the libtorch of the build");
        let problem = "it is version 2.5.1, and 2.13.0 is needed";
        assert_eq!(search.candidates[1].problem.as_deref(), Some(problem));
        let refused = machine.search(&[(VARIABLE, old)]).worker.unwrap_err();
        assert!(
            refused.starts_with("PIPE_LIBTORCH names a libtorch") && refused.contains(problem),
            "{refused}"
        );
    }

    #[test]
    fn a_missing_libtorch_is_reported_with_all_places_and_what_to_do() {
        let machine = Machine::new();
        fs::remove_dir_all(machine.path("build")).unwrap();
        let message = machine.search(&[]).worker.unwrap_err();
        for part in
            ["libtorch 2.13.0 is needed", "PIPE_LIBTORCH: it is not set", "no `torch`", "`pipe torch fetch`"]
        {
            assert!(message.contains(part), "{message}");
        }
        let empty = machine.search(&[(VARIABLE, machine.path("bin"))]).worker.unwrap_err();
        assert!(empty.contains("there is no `libtorch_cpu.so`"), "{empty}");
    }

    #[test]
    fn a_libtorch_that_lacks_a_library_of_its_own_is_passed_over() {
        let machine = Machine::new();
        let torn = machine.libtorch("home/.cache/pipe/libtorch-2.13.0/cpu", "build-version", "2.13.0\n");
        fs::write(machine.path("part.c"), "int part(void) { return 0; }\n").unwrap();
        let build = format!(
            "cd '{}' && cc -shared -fPIC -o libc10.so part.c && cc -shared -fPIC -Wl,--no-as-needed \
             -Wl,-soname,libtorch_cpu.so -o '{}/lib/libtorch_cpu.so' torch.c -L. -l:libc10.so && rm libc10.so",
            machine.0.path().display(),
            torn.display()
        );
        assert!(Command::new("sh").args(["-c", &build]).status().unwrap().success());
        let search = machine.search(&[]);
        assert_eq!(used(&search).0, "the libtorch of the build");
        let problem = search.candidates[2].problem.as_deref();
        assert_eq!(problem, Some("it needs libc10.so, which the loader does not find"));
    }

    #[test]
    fn a_libtorch_without_a_version_is_judged_by_its_functions() {
        let machine = Machine::new();
        let folder = machine.libtorch("mine", "README", "no version\n");
        assert_eq!(used(&machine.search(&[(VARIABLE, folder.clone())])).0, VARIABLE);
        fs::write(machine.path("other.c"), "int other(void) { return 0; }\n").unwrap();
        let build = format!(
            "cd '{}' && cc -shared -fPIC -Wl,-soname,libtorch_cpu.so -o '{}/lib/libtorch_cpu.so' other.c",
            machine.0.path().display(),
            folder.display()
        );
        assert!(Command::new("sh").args(["-c", &build]).status().unwrap().success());
        let refused = machine.search(&[(VARIABLE, folder)]).worker.unwrap_err();
        assert!(
            refused.starts_with("PIPE_LIBTORCH names a libtorch")
                && refused.contains("it is not version 2.13.0: 1 function"),
            "{refused}"
        );
    }

    #[test]
    fn a_worker_that_is_a_script_needs_no_libtorch() {
        let machine = Machine::new();
        fs::write(machine.path("bin/pipe-worker"), "#!/bin/sh\n").unwrap();
        let search = machine.search(&[]);
        assert!(search.candidates.is_empty() && search.worker.is_ok());
        fs::remove_file(machine.path("bin/pipe-worker")).unwrap();
        assert!(machine.search(&[]).worker.unwrap_err().contains("`make build` builds both"));
    }
}
