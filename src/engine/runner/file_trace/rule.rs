//! Decides whether a file that a command opened is an undeclared input.

use std::collections::HashMap;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};

/// Directories that hold the system and installed programs.
const SYSTEM: [&str; 18] = [
    "/bin",
    "/dev",
    "/etc",
    "/gnu",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/nix",
    "/opt",
    "/proc",
    "/run",
    "/sbin",
    "/snap",
    "/sys",
    "/usr",
    "/var/cache",
    "/var/lib",
];

/// Places in the directories of the system where anybody can keep data.
const DATA_IN_SYSTEM: [&str; 2] = ["/dev/shm", "/run/media"];

/// Directories that hold installed packages, wherever they are.
const PACKAGES: [&str; 3] = ["dist-packages", "node_modules", "site-packages"];

/// What a directory with an environment of its own contains: a virtual environment or an interpreter, a conda environment.
const MARKS_OF_ENVIRONMENT: [&str; 3] = ["pyvenv.cfg", "bin/python3", "conda-meta"];

/// The directories of `PATH` with these names are part of an installation that their parent contains.
const PROGRAMS: [&str; 3] = ["bin", "sbin", "shims"];

/// Which files are inputs of a command, and which of them it declares. All paths are real paths, without links.
pub(super) struct InputRule {
    project: PathBuf,
    home: Option<PathBuf>,
    work_area: PathBuf,
    declared: Vec<PathBuf>,
    /// The installations whose programs `PATH` finds.
    installed: Vec<PathBuf>,
    /// Whether a directory is an environment.
    environments: HashMap<PathBuf, bool>,
}

impl InputRule {
    pub(super) fn new(project: &Path, work_area: &Path, inputs: &[&Path]) -> io::Result<Self> {
        let home = std::env::var_os("HOME").and_then(|home| PathBuf::from(home).canonicalize().ok());
        let declared = inputs.iter().map(|input| input.canonicalize()).collect::<io::Result<_>>()?;
        let mut rule = Self {
            project: project.to_owned(),
            home,
            work_area: work_area.canonicalize()?,
            declared,
            installed: Vec::new(),
            environments: HashMap::new(),
        };
        let path = std::env::var_os("PATH").unwrap_or_default();
        rule.installed = std::env::split_paths(&path).filter_map(|place| rule.installation(&place)).collect();
        Ok(rule)
    }

    /// Returns the installation that a directory of `PATH` belongs to.
    fn installation(&self, directory: &Path) -> Option<PathBuf> {
        let directory = directory.canonicalize().ok()?;
        let is_named = |name: &OsStr| PROGRAMS.iter().any(|program| name == *program);
        let parent = directory.parent().filter(|_| directory.file_name().is_some_and(is_named));
        let whole = parent.filter(|parent| !self.contains_more(parent)).map(Path::to_owned);
        whole.or(Some(directory)).filter(|place| !self.contains_more(place))
    }

    /// Returns whether a directory contains the project or the home directory, and so data of the user.
    fn contains_more(&self, directory: &Path) -> bool {
        self.project.starts_with(directory) || self.home.iter().any(|home| home.starts_with(directory))
    }

    /// Returns whether a file belongs to the command: its working directory, its temporary files.
    pub(super) fn is_own(&self, real: &Path) -> bool {
        real.starts_with(&self.work_area)
    }

    /// Returns whether a file is an input that the command does not declare. `path` is the path that the command used.
    pub(super) fn is_undeclared(&mut self, path: &Path, real: &Path) -> bool {
        // In the order of cost: most files belong to the system.
        !self.is_own(real) && !self.is_software(real) && !self.is_declared(path, real)
    }

    fn is_declared(&self, path: &Path, real: &Path) -> bool {
        let declares = |real: &Path| self.declared.iter().any(|input| real.starts_with(input));
        // A link in a declared directory may lead out of it; what it leads to is part of the declared content.
        let is_inside = |place: &Path| place_of(place).is_some_and(|place| declares(&place));
        declares(real) || path.ancestors().any(is_inside)
    }

    /// Returns whether a file belongs to the system or to installed software, which is not part of a key.
    pub(super) fn is_software(&mut self, real: &Path) -> bool {
        if real.ancestors().any(|directory| self.is_environment(directory)) {
            return true;
        }
        if real.starts_with(&self.project) {
            return false;
        }
        let is_below = |places: &[&str]| places.iter().any(|place| real.starts_with(place));
        (is_below(&SYSTEM) && !is_below(&DATA_IN_SYSTEM))
            || self.installed.iter().any(|place| real.starts_with(place))
    }

    fn is_environment(&mut self, directory: &Path) -> bool {
        if let Some(&known) = self.environments.get(directory) {
            return known;
        }
        let is_environment = !self.contains_more(directory)
            && (directory.file_name().is_some_and(|name| PACKAGES.iter().any(|packages| name == *packages))
                || MARKS_OF_ENVIRONMENT.iter().any(|mark| directory.join(mark).exists()));
        self.environments.insert(directory.to_owned(), is_environment);
        is_environment
    }
}

/// Returns a path without links, except that the file itself may be one.
pub(super) fn place_of(path: &Path) -> Option<PathBuf> {
    match (path.parent(), path.file_name()) {
        (Some(parent), Some(name)) => Some(parent.canonicalize().ok()?.join(name)),
        _ => path.canonicalize().ok(),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;

    struct Machine {
        directory: tempfile::TempDir,
        rule: InputRule,
    }

    impl Machine {
        /// Creates a project with a declared file and directory, beside a home directory.
        fn new() -> Self {
            let directory = tempfile::tempdir().unwrap();
            let root = directory.path().canonicalize().unwrap();
            let at = |name: &str| root.join(name);
            for name in ["project/data", "project/area", "project/raw", "home/.tools/bin", "elsewhere"] {
                fs::create_dir_all(at(name)).unwrap();
            }
            for name in ["project/in.csv", "project/data/a.csv", "project/raw/b.csv", "elsewhere/c.csv"] {
                fs::write(at(name), "x").unwrap();
            }
            let inputs = [at("project/in.csv"), at("project/data")];
            let inputs: Vec<&Path> = inputs.iter().map(PathBuf::as_path).collect();
            let mut rule = InputRule::new(&at("project"), &at("project/area"), &inputs).unwrap();
            rule.home = Some(at("home"));
            rule.installed = rule.installation(&at("home/.tools/bin")).into_iter().collect();
            Self { directory, rule }
        }

        fn at(&self, name: &str) -> PathBuf {
            self.directory.path().canonicalize().unwrap().join(name)
        }

        fn is_undeclared(&mut self, name: &str) -> bool {
            let path = self.at(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            if !path.exists() {
                fs::write(&path, "x").unwrap();
            }
            self.rule.is_undeclared(&path, &path.canonicalize().unwrap())
        }
    }

    #[test]
    fn files_of_the_project_and_data_elsewhere_are_inputs() {
        let mut machine = Machine::new();
        for name in
            ["project/raw/b.csv", "elsewhere/c.csv", "home/notes.txt", "project/data.csv", "project/bin/x"]
        {
            assert!(machine.is_undeclared(name), "{name}");
        }
        for name in ["project/in.csv", "project/data/a.csv", "project/data/deep/d.csv", "project/area/tmp/t"]
        {
            assert!(!machine.is_undeclared(name), "{name}");
        }
    }

    #[test]
    fn a_link_counts_as_what_it_leads_to() {
        let mut machine = Machine::new();
        symlink(machine.at("project/in.csv"), machine.at("elsewhere/link")).unwrap();
        symlink(machine.at("elsewhere"), machine.at("project/area/link")).unwrap();
        assert!(!machine.is_undeclared("elsewhere/link"), "it leads to a declared file");
        assert!(machine.is_undeclared("project/area/link/c.csv"), "it leads out of the work area");
        symlink(machine.at("elsewhere"), machine.at("project/data/link")).unwrap();
        assert!(!machine.is_undeclared("project/data/link/c.csv"), "it is part of a declared directory");
    }

    #[test]
    fn installed_software_is_no_input_wherever_it_is() {
        let mut machine = Machine::new();
        let python = "project/.venv/lib/python3.12";
        fs::create_dir_all(machine.at(python)).unwrap();
        fs::write(machine.at("project/.venv/pyvenv.cfg"), "").unwrap();
        for name in [
            "project/.venv/lib/python3.12/site-packages/numpy/core.py",
            "project/.venv/bin/tool",
            "project/node_modules/d3/index.js",
            "home/.tools/libexec/x",
        ] {
            assert!(!machine.is_undeclared(name), "{name}");
        }
        for system in ["/usr/share/zoneinfo/UTC", "/etc/passwd", "/proc/self/status"] {
            assert!(!machine.rule.is_undeclared(Path::new(system), Path::new(system)), "{system}");
        }
        let shared = Path::new("/dev/shm/data.csv");
        assert!(machine.rule.is_undeclared(shared, shared));
    }

    #[test]
    fn a_directory_with_the_user_s_data_is_never_software() {
        let mut machine = Machine::new();
        fs::write(machine.at("project/pyvenv.cfg"), "").unwrap();
        assert!(machine.is_undeclared("project/raw/b.csv"), "an environment was made in the project itself");
        assert_eq!(machine.rule.installation(&machine.at("home")), None);
        fs::create_dir(machine.at("home/bin")).unwrap();
        let programs = machine.rule.installation(&machine.at("home/bin"));
        assert_eq!(programs, Some(machine.at("home/bin")), "not all of the home directory");
    }
}
