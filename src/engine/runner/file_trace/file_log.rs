//! What a command did with files, reduced to those that it should have declared.

use std::collections::{BTreeSet, HashSet};
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use libc::c_int;

use super::rule::{InputRule, place_of};
use super::undeclared::UndeclaredFiles;

/// The undeclared files of a command. The calls have to be reported in the order in which the command made them.
pub(super) struct FileLog {
    rule: InputRule,
    read: BTreeSet<PathBuf>,
    written: BTreeSet<PathBuf>,
    /// Files outside of the work area whose whole content is from the command. Reading them is no input.
    made: HashSet<PathBuf>,
    missed: usize,
}

impl FileLog {
    pub(super) fn new(rule: InputRule) -> Self {
        let (read, written, made) = (BTreeSet::new(), BTreeSet::new(), HashSet::new());
        Self { rule, read, written, made, missed: 0 }
    }

    /// Notes that a file is about to be opened with these flags, or executed.
    pub(super) fn opened(&mut self, path: &Path, flags: c_int) {
        let has = |flag: c_int| flags & flag == flag;
        // A descriptor for a path alone does not read. What is below /dev/fd is already open.
        if has(libc::O_PATH) || (path.starts_with("/dev") && !path.starts_with("/dev/shm")) {
            return;
        }
        let Some(place) = place_of(path) else { return };
        let Ok(real) = place.canonicalize() else {
            if has(libc::O_CREAT) {
                self.made.insert(place.clone());
                self.written.insert(place);
            }
            return;
        };
        if !real.is_file() || (has(libc::O_CREAT) && has(libc::O_EXCL)) {
            return;
        }
        let writes = flags & libc::O_ACCMODE != libc::O_RDONLY;
        if writes {
            self.written.insert(real.clone());
        }
        if has(libc::O_TRUNC) {
            self.made.insert(real);
        } else if !writes || has(libc::O_RDWR) {
            self.used(path, place, real);
        }
    }

    /// Notes that a file is about to be renamed, or linked, so that another path has its content.
    pub(super) fn moved(&mut self, from: &Path, to: &Path) {
        let (Some(source), Some(target)) = (place_of(from), place_of(to)) else { return };
        if !source.is_file() {
            return;
        }
        if self.made.contains(&source) || self.rule.is_own(&source) {
            self.made.insert(target.clone());
        } else if let Ok(real) = source.canonicalize() {
            self.used(from, source, real);
        }
        self.written.insert(target);
    }

    /// Notes that a file was opened whose name could not be read.
    pub(super) fn missed_one(&mut self) {
        self.missed += 1;
    }

    fn used(&mut self, path: &Path, place: PathBuf, real: PathBuf) {
        // Python reads the compiled file and only looks at the time of its source, which is what the user knows.
        if let Some(source) = python_source(&real) {
            return self.used(&source, source.clone(), source.clone());
        }
        if self.made.contains(&real) || !self.rule.is_undeclared(path, &real) {
            return;
        }
        // A link is named as the user wrote it, unless the command made it itself.
        self.read.insert(if self.rule.is_own(&place) { real } else { place });
    }

    /// Returns the undeclared files. Fails if some were not seen.
    pub(super) fn finish(mut self, project: &Path) -> io::Result<UndeclaredFiles> {
        if self.missed > 0 {
            let message = format!("the names of {} files that it opened could not be read", self.missed);
            return Err(io::Error::other(message));
        }
        let shown = |path: &PathBuf| path.strip_prefix(project).unwrap_or(path).display().to_string();
        let mut written = Vec::new();
        for path in &self.written {
            // A temporary file that is gone again affects nobody.
            let remains = fs::symlink_metadata(path).is_ok_and(|found| found.is_file());
            let is_compiled = path.parent().is_some_and(|parent| parent.ends_with("__pycache__"));
            if remains && !is_compiled && !self.rule.is_own(path) && !self.rule.is_software(path) {
                written.push(shown(path));
            }
        }
        Ok(UndeclaredFiles { read: self.read.iter().map(shown).collect(), written })
    }
}

/// Returns the source of a file that Python compiled: `a.py` for `__pycache__/a.cpython-312.pyc`.
fn python_source(compiled: &Path) -> Option<PathBuf> {
    let directory = compiled.parent().filter(|parent| parent.ends_with("__pycache__"))?.parent()?;
    let name = compiled.file_name()?.to_str()?.strip_suffix(".pyc")?;
    let source = directory.join(format!("{}.py", name.split('.').next()?));
    source.is_file().then_some(source)
}
