//! A directory as a remote: on a file server, a mounted disk, or a synchronised folder.

use std::fs::{self, File, Permissions};
use std::io::{self, ErrorKind, Read};
use std::os::unix::fs::{OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::backend::{Backend, BackendError, Listed};
use super::outgoing::Outgoing;

/// The files of a remote in a directory.
pub(super) struct Directory {
    root: PathBuf,
}

impl Directory {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { root }
    }

    /// Tells a file that does not exist from a directory that is not mounted.
    fn require_root(&self) -> Result<(), BackendError> {
        match fs::metadata(&self.root) {
            Ok(metadata) if metadata.is_dir() => Ok(()),
            Ok(_) => Err(BackendError(format!("`{}` is not a directory", self.root.display()))),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                let root = self.root.display();
                Err(BackendError(format!(
                    "there is no directory `{root}`; create it, or mount its file system"
                )))
            }
            Err(error) => Err(failed("read", &self.root, &error)),
        }
    }

    /// Returns the result of an operation on a file, or `None` if the file does not exist.
    fn unless_missing<T>(&self, path: &Path, result: io::Result<T>) -> Result<Option<T>, BackendError> {
        match result {
            Ok(value) => Ok(Some(value)),
            Err(error) if error.kind() == ErrorKind::NotFound => self.require_root().map(|()| None),
            Err(error) => Err(failed("read", path, &error)),
        }
    }
}

fn failed(doing: &str, path: &Path, error: &io::Error) -> BackendError {
    let hint = match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            "; make room with `pipe cache gc --remote`, or ask for more"
        }
        _ => "",
    };
    BackendError(format!("cannot {doing} `{}`: {error}{hint}", path.display()))
}

impl Backend for Directory {
    fn get(&self, path: &str) -> Result<Option<Box<dyn Read + Send>>, BackendError> {
        let path = self.root.join(path);
        // Whoever can write to the directory can put a named pipe there, which would be waited for without this flag.
        let opened = File::options().read(true).custom_flags(libc::O_NONBLOCK).open(&path);
        let Some(file) = self.unless_missing(&path, opened)? else { return Ok(None) };
        if !file.metadata().is_ok_and(|metadata| metadata.is_file()) {
            return Err(BackendError(format!("cannot read `{}`: it is not a file", path.display())));
        }
        Ok(Some(Box::new(file)))
    }

    fn put(&self, path: &str, content: &dyn Outgoing) -> Result<u64, BackendError> {
        self.require_root()?;
        let path = self.root.join(path);
        let write = || {
            let folder = path.parent().unwrap_or(&self.root);
            fs::create_dir_all(folder)?;
            // Hidden, so that it is never listed. The umask decides who can read it.
            let mut builder = tempfile::Builder::new();
            builder.prefix(".new-").permissions(Permissions::from_mode(0o444));
            let mut temp = builder.tempfile_in(folder)?;
            let length = io::copy(&mut content.open()?, &mut temp)?;
            // A file server may say only now that there is no room.
            temp.as_file().sync_all()?;
            temp.persist(&path).map_err(|error| error.error)?;
            Ok(length)
        };
        write().map_err(|error| failed("write", &path, &error))
    }

    fn exists(&self, path: &str) -> Result<bool, BackendError> {
        let path = self.root.join(path);
        Ok(self.unless_missing(&path, fs::metadata(&path))?.is_some())
    }

    fn list(&self, folder: &str) -> Result<Vec<Listed>, BackendError> {
        let mut found = Vec::new();
        let mut pending = vec![folder.to_owned()];
        while let Some(folder) = pending.pop() {
            let directory = self.root.join(&folder);
            let Some(entries) = self.unless_missing(&directory, fs::read_dir(&directory))? else { continue };
            for entry in entries {
                let entry = entry.map_err(|error| failed("read", &directory, &error))?;
                let name = entry.file_name();
                let Some(name) = name.to_str().filter(|name| !name.starts_with('.')) else { continue };
                let path = format!("{folder}/{name}");
                // It may have been removed in the meantime.
                let Some(metadata) = self.unless_missing(&directory, entry.metadata())? else { continue };
                if metadata.is_dir() {
                    pending.push(path);
                } else {
                    found.push(Listed { path, bytes: metadata.len(), modified: metadata.modified().ok() });
                }
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    fn remove(&self, path: &str) -> Result<(), BackendError> {
        let path = self.root.join(path);
        match fs::remove_file(&path) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(failed("remove", &path, &error)),
            _ => Ok(()),
        }
    }
}
