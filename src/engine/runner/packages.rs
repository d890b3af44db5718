//! The packages of commands: finds interpreters, and knows how each tool installs packages into a directory.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::executor::AttemptError;
use crate::store::{PackageDirectory, Store};
use pipe_core::captured::captured;
use pipe_core::digest::{BlobId, Digest};
use pipe_core::job::Job;
use pipe_core::packages::{Interpreter, PackageRequest, PackageTool, Packages};

/// Prints the version of an interpreter, and its path outside of any virtual environment.
const DESCRIBE: &str = "import sys
print(sys.implementation.name, sys.version.split()[0])
print(getattr(sys, '_base_executable', None) or sys.executable)";

/// The programs that install conda packages, in the order in which they are tried.
const CONDA_PROGRAMS: [&str; 3] = ["conda", "mamba", "micromamba"];

/// Variables that would lead a tool into another environment, or to packages that are installed elsewhere.
const NOT_PASSED_ON: [&str; 7] =
    ["PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV", "CONDA_PREFIX", "PIP_TARGET", "PIP_PREFIX", "PIP_USER"];

/// Returns the interpreter for packages, or a sentence if there is none. Paths are relative to the current directory.
pub fn find_interpreter(request: &PackageRequest) -> Result<Option<Interpreter>, String> {
    let named = request.python.as_deref();
    match request.tool {
        PackageTool::Conda => Ok(None),
        PackageTool::Venv => describe(Path::new(named.unwrap_or("python3"))).map(Some),
        PackageTool::Uv => {
            let mut find = Command::new("uv");
            find.args(["python", "find", "--system"]).args(named).env("UV_PYTHON_DOWNLOADS", "never");
            if request.directory.is_dir() {
                find.current_dir(&request.directory);
            }
            describe(Path::new(answer(&mut find)?.trim_end())).map(Some)
        }
    }
}

/// Asks an interpreter for its version.
fn describe(program: &Path) -> Result<Interpreter, String> {
    let text = answer(Command::new(program).args(["-I", "-c", DESCRIBE]))?;
    match text.lines().collect::<Vec<_>>()[..] {
        [version, program] => Ok(Interpreter { program: program.into(), version: version.to_owned() }),
        _ => Err(format!("`{}` is not a Python interpreter", program.display())),
    }
}

/// Returns what a program prints, or a sentence if it fails.
fn answer(command: &mut Command) -> Result<String, String> {
    for name in NOT_PASSED_ON {
        command.env_remove(name);
    }
    let output = captured(command);
    let program = command.get_program().to_string_lossy();
    let needed = "and the environment of this command needs it";
    let output = output.map_err(|error| match error.kind() {
        std::io::ErrorKind::NotFound => format!("the program `{program}` was not found, {needed}"),
        _ => format!("the program `{program}` could not be started ({error}), {needed}"),
    })?;
    if !output.status.success() {
        let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        return Err(format!("`{program}` failed, {needed}: {said}"));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// The packages of one attempt, and where they are installed.
pub struct PackageTask<'a> {
    packages: &'a Packages,
    pub(super) directory: PackageDirectory,
    files: Vec<CheckedFile>,
}

/// A file that packages are installed from, with the content that the key was made from.
struct CheckedFile {
    path: PathBuf,
    blob: BlobId,
    name: String,
}

impl<'a> PackageTask<'a> {
    /// Finds the files of the packages among the inputs of a job.
    pub(super) fn new(packages: &'a Packages, job: &Job, store: &Store) -> Result<Self, String> {
        let mut files = Vec::with_capacity(packages.request.files.len());
        for file in &packages.request.files {
            let input = job.inputs.get(&file.slot).and_then(|artifacts| artifacts.first());
            let found = input.and_then(|input| Some((input.path.clone(), input.blob?)));
            let (path, blob) = found.ok_or_else(|| format!("its input `{}` is missing", file.slot))?;
            files.push(CheckedFile { path, blob, name: file.name.clone() });
        }
        let mut identity = format!("{} {}\n", packages.request.tool.name(), std::env::consts::ARCH);
        if let Some(Interpreter { program, version }) = &packages.interpreter {
            identity.push_str(&format!("{version} {}\n", program.display()));
        }
        for file in &files {
            identity.push_str(&format!("{} {}\n", file.blob, file.name));
        }
        let directory = store.package_directory(&identity).map_err(|error| error.to_string())?;
        Ok(Self { packages, directory, files })
    }

    /// Returns how the pipeline asks for the packages: `venv: requirements.txt`.
    pub(super) fn shown(&self) -> String {
        let request = &self.packages.request;
        let file = request.files.first().map(|file| request.directory.join(&file.name)).unwrap_or_default();
        format!("{}: {}", request.tool.name(), file.display())
    }

    /// Returns why an installation cannot be used: it is damaged, or its interpreter is not the one that the key was made for.
    pub(super) fn problem(&self, installation: &Path) -> Option<String> {
        if let Some(file) = self.directory.damaged_file(installation) {
            return Some(format!("`{file}` is missing or was changed"));
        }
        let expected = self.packages.interpreter.as_ref()?;
        match describe(&installation.join("bin/python")) {
            Ok(found) if found.version == expected.version => None,
            Ok(found) => Some(format!("the interpreter is {}, not {}", found.version, expected.version)),
            Err(problem) => Some(problem),
        }
    }

    /// Copies the files into a new directory, so that packages are installed from exactly the content that the key was made from.
    /// A file that refers to others, whose content is in no key, does not find them there.
    pub(super) fn copy_files(&self, to: &Path) -> Result<(), AttemptError> {
        fs::create_dir(to)
            .map_err(|e| AttemptError::permanent(format!("could not create `{}`: {e}", to.display())))?;
        for CheckedFile { path, blob, name } in &self.files {
            let shown = path.display();
            let content =
                fs::read(path).map_err(|e| AttemptError::permanent(format!("cannot read `{shown}`: {e}")))?;
            if BlobId::new(Digest::of(&content)) != *blob {
                return Err(AttemptError::permanent(format!(
                    "`{shown}` was changed before its packages were installed; run again"
                )));
            }
            fs::write(to.join(name), content)
                .map_err(|e| AttemptError::permanent(format!("could not copy `{shown}`: {e}")))?;
        }
        Ok(())
    }

    /// Returns the commands that install the packages into an empty directory, from copies of the files.
    pub(super) fn installing(&self, into: &Path, files: &Path) -> Vec<Command> {
        let python =
            self.packages.interpreter.as_ref().map(|found| found.program.clone()).unwrap_or_default();
        let file = self.files.first().map(|file| files.join(&file.name)).unwrap_or_default();
        let mut commands = match self.packages.request.tool {
            PackageTool::Venv => {
                let mut venv = Command::new(python);
                venv.args(["-m", "venv"]).arg(into);
                let mut pip = Command::new(into.join("bin/python"));
                pip.args([
                    "-m",
                    "pip",
                    "install",
                    "--disable-pip-version-check",
                    "--no-input",
                    "--requirement",
                ]);
                pip.arg(file);
                vec![venv, pip]
            }
            PackageTool::Uv => {
                let mut uv = Command::new("uv");
                // Neither the project nor its workspace: their code is in no key.
                uv.args(["sync", "--frozen", "--no-install-project", "--no-install-workspace", "--python"]);
                uv.arg(python).env("UV_PROJECT_ENVIRONMENT", into).env("UV_PYTHON_DOWNLOADS", "never");
                vec![uv]
            }
            PackageTool::Conda => {
                let program = CONDA_PROGRAMS.into_iter().find(|name| is_on_path(name));
                let program = program.unwrap_or(CONDA_PROGRAMS[0]);
                let is_explicit = fs::read_to_string(&file)
                    .is_ok_and(|text| text.lines().any(|line| line.trim() == "@EXPLICIT"));
                let mut conda = Command::new(program);
                if program == "conda" && !is_explicit {
                    conda.arg("env");
                }
                conda.arg("create").arg("--prefix").arg(into).arg("--file").arg(file);
                conda.env("CONDA_ALWAYS_YES", "true").env("MAMBA_ALWAYS_YES", "true");
                vec![conda]
            }
        };
        for command in &mut commands {
            command.current_dir(files);
            for name in NOT_PASSED_ON {
                command.env_remove(name);
            }
        }
        commands
    }

    /// Lets a command find the installed packages, as activating the environment in a shell does.
    pub(super) fn activate(&self, installation: &Path, command: &mut Command) {
        let variable = match self.packages.request.tool {
            PackageTool::Venv | PackageTool::Uv => "VIRTUAL_ENV",
            PackageTool::Conda => "CONDA_PREFIX",
        };
        let set = command.get_envs().find(|(name, _)| *name == "PATH").and_then(|(_, value)| value);
        let set = set.unwrap_or_default().to_owned();
        let places = std::iter::once(installation.join("bin")).chain(std::env::split_paths(&set));
        command.env(variable, installation).env("PATH", std::env::join_paths(places).unwrap_or(set));
    }
}

fn is_on_path(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(program).is_file())
}
