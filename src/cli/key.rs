//! `pipe key`: creates and shows the keys that sign results. Secret keys are in the user's configuration directory,
//! not in a project.

use std::fs;
use std::io::{ErrorKind, Write};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};

use super::args::KeyCommand;
use super::exit::{Exit, Failure, Outcome};
use super::print_text;
use super::project::Project;
use pipe_engine::remote::SigningKey;

/// Runs `pipe key`.
pub(super) fn key(project: &Project, command: &KeyCommand) -> Outcome {
    let environment = |name: &str| std::env::var(name).ok();
    let directory = directory(&environment)?;
    match command {
        KeyCommand::New { name } => new(project, &directory, name),
        KeyCommand::Show { name } => show(&directory, name.as_deref()),
    }
}

fn new(project: &Project, directory: &Path, name: &str) -> Outcome {
    let key = SigningKey::generate(name).map_err(|error| Failure::bad_input(error.to_string()))?;
    let path = file_of(directory, name);
    let cannot = |error: std::io::Error| match error.kind() {
        ErrorKind::AlreadyExists => Failure::bad_input(format!(
            "there is a key `{name}` already, in {}; `pipe key show {name}` prints its public part",
            path.display()
        )),
        _ => Failure::bad_input(format!("cannot write {}: {error}", path.display())),
    };
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory).map_err(cannot)?;
    let mut file =
        fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path).map_err(cannot)?;
    let written = writeln!(file, "{}", key.secret_text()).and_then(|()| file.sync_all());
    written.inspect_err(|_| drop(fs::remove_file(&path))).map_err(cannot)?;
    print_text(&format!("{}\n", key.public()))?;
    project.status(&format!(
        "the secret key is in {}; put the line above under `trusted:` in `pipe.yaml` of every project that shall use \
         the results of `{name}`",
        path.display()
    ));
    Ok(Exit::Done)
}

fn show(directory: &Path, name: Option<&str>) -> Outcome {
    let names = match name {
        Some(name) => vec![name.to_owned()],
        None => names(directory)?,
    };
    if names.is_empty() {
        return Err(Failure::bad_input("there is no key yet; `pipe key new NAME` creates one"));
    }
    let mut lines = String::new();
    for name in names {
        lines.push_str(&format!("{}\n", read(directory, &name)?.public()));
    }
    print_text(&lines)
}

/// Returns the key that signs what this user uploads: the one in PIPE_SIGNING_KEY, or the one that PIPE_KEY names, or
/// the only one there is.
pub(super) fn own(environment: &dyn Fn(&str) -> Option<String>) -> Result<Option<SigningKey>, Failure> {
    let set = |name: &str| environment(name).filter(|value| !value.is_empty());
    if let Some(text) = set("PIPE_SIGNING_KEY") {
        let key = text.parse();
        return key.map(Some).map_err(|error| Failure::bad_input(format!("PIPE_SIGNING_KEY: {error}")));
    }
    let Ok(directory) = directory(environment) else { return Ok(None) };
    if let Some(name) = set("PIPE_KEY") {
        return read(&directory, &name).map(Some);
    }
    match names(&directory)?.as_slice() {
        [] => Ok(None),
        [only] => read(&directory, only).map(Some),
        several => Err(Failure::bad_input(format!(
            "there are {} keys ({}); PIPE_KEY says which one signs",
            several.len(),
            several.join(", ")
        ))),
    }
}

/// Returns the directory of the keys.
fn directory(environment: &dyn Fn(&str) -> Option<String>) -> Result<PathBuf, Failure> {
    let set =
        |name: &str| environment(name).filter(|value| Path::new(value).is_absolute()).map(PathBuf::from);
    let base = set("XDG_CONFIG_HOME").or_else(|| set("HOME").map(|home| home.join(".config")));
    base.map(|base| base.join("pipe/keys")).ok_or_else(|| {
        Failure::bad_input("there is no place for keys: neither HOME nor XDG_CONFIG_HOME is set")
    })
}

fn file_of(directory: &Path, name: &str) -> PathBuf {
    directory.join(format!("{name}.key"))
}

/// Returns the names of the keys, sorted.
fn names(directory: &Path) -> Result<Vec<String>, Failure> {
    let cannot = |error| Failure::bad_input(format!("cannot read {}: {error}", directory.display()));
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries.map_err(cannot)?,
    };
    let mut names = Vec::new();
    for entry in entries {
        let name = entry.map_err(cannot)?.file_name();
        names.extend(name.to_str().and_then(|name| name.strip_suffix(".key")).map(str::to_owned));
    }
    names.sort();
    Ok(names)
}

fn read(directory: &Path, name: &str) -> Result<SigningKey, Failure> {
    let path = file_of(directory, name);
    let refuse = |what: String| Failure::bad_input(format!("{}: {what}", path.display()));
    let text = fs::read_to_string(&path).map_err(|error| match error.kind() {
        ErrorKind::NotFound => {
            Failure::bad_input(format!("there is no key `{name}`; `pipe key new {name}` creates it"))
        }
        _ => refuse(format!("it cannot be read: {error}")),
    })?;
    let mode = fs::metadata(&path)?.permissions().mode();
    if mode & 0o077 != 0 {
        return Err(refuse(
            "other users can read this secret key; `chmod 600` it, or create a new one".to_owned(),
        ));
    }
    let key: SigningKey = text.parse().map_err(|error| refuse(format!("it is not a secret key: {error}")))?;
    if key.name() != name {
        return Err(refuse(format!("it contains the key of `{}`", key.name())));
    }
    Ok(key)
}
