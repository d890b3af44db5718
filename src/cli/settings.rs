//! The settings of a project, `pipe.yaml`, and what the environment sets instead. They are never part of a key.

use std::path::Path;

use serde::Deserialize;

use super::exit::Failure;
use super::key;
use super::project::Project;
use pipe_core::suggest;
use pipe_engine::remote::{Policy, Remote, RemoteSettings, SigningKey, Trust, TrustedWriters};
use pipe_engine::runner::Stop;

/// The file with the settings, in the project directory.
pub(super) const FILE: &str = "pipe.yaml";

const FIELDS: [&str; 6] = ["remote", "url", "read", "write", "trusted", "bandwidth"];

#[derive(Debug, Default, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Settings {
    #[serde(default)]
    remote: Option<RemoteSettings>,
}

/// What a command wants of the remote, besides what the settings say.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Use {
    /// What the settings say.
    AsSet,
    /// To fetch something that the user asked for.
    Read,
    /// To upload something that the user asked for.
    Write,
}

impl Project {
    /// Opens the remote of the project, if it has one. Makes no request.
    pub(super) fn remote(&self, wish: Use, stop: &Stop) -> Result<Option<Remote>, Failure> {
        let environment = |name: &str| std::env::var(name).ok();
        let Some(mut settings) = remote_settings(Path::new(FILE), &environment)? else { return Ok(None) };
        match wish {
            Use::AsSet => {}
            Use::Read => settings.read = Policy::Always,
            Use::Write => settings.write = Policy::Always,
        }
        if (settings.read, settings.write) == (Policy::Never, Policy::Never) {
            return Ok(None);
        }
        // A key that cannot be used concerns only those who write.
        let writer = match key::own(&environment) {
            Err(_) if settings.write == Policy::Never => None,
            found => found?,
        };
        let opened = Remote::open(&settings, Path::new("."), &environment, writer, stop.clone());
        opened.map(Some).map_err(|error| Failure::bad_input(format!("the remote cannot be used: {error}")))
    }

    /// Returns whose signatures count, also without a remote. A project without a list of keys does not look at signatures.
    pub(super) fn trust(&self) -> Result<Trust, Failure> {
        let trusted = read(Path::new(FILE))?.remote.map(|remote| remote.trusted).unwrap_or_default();
        if trusted == TrustedWriters::default() {
            return Ok(Trust::Anyone);
        }
        let own = key::own(&|name| std::env::var(name).ok()).ok().flatten();
        Trust::new(&trusted, own.as_ref().map(SigningKey::public))
            .map_err(|error| Failure::bad_input(format!("{FILE}: {error}")))
    }

    /// Opens the remote for a command that is about it.
    pub(super) fn require_remote(&self, wish: Use) -> Result<Remote, Failure> {
        self.remote(wish, &Stop::new())?.ok_or_else(|| {
            Failure::bad_input(format!(
                "this project has no remote; name one in `{FILE}`, as in `remote: {{ url: s3://BUCKET/PREFIX }}`, or in \
                 PIPE_REMOTE"
            ))
        })
    }
}

/// Returns the settings in a file, changed by the environment. An empty PIPE_REMOTE means that there is no remote.
fn remote_settings(
    file: &Path,
    environment: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<RemoteSettings>, Failure> {
    let mut remote = read(file)?.remote;
    match environment("PIPE_REMOTE") {
        Some(url) if url.is_empty() => return Ok(None),
        Some(url) => match &mut remote {
            Some(remote) => remote.url = url,
            none => *none = Some(RemoteSettings::of_url(url)),
        },
        None => {}
    }
    if let Some(remote) = &mut remote {
        for (variable, policy) in
            [("PIPE_REMOTE_READ", &mut remote.read), ("PIPE_REMOTE_WRITE", &mut remote.write)]
        {
            match environment(variable).as_deref() {
                None | Some("") => {}
                Some("always") => *policy = Policy::Always,
                Some("never") => *policy = Policy::Never,
                Some(other) => {
                    let expected = "but `always` or `never` is expected";
                    return Err(Failure::bad_input(format!("{variable} is `{other}`, {expected}")));
                }
            }
        }
    }
    Ok(remote)
}

fn read(file: &Path) -> Result<Settings, Failure> {
    let refuse = |what: String| Failure::bad_input(format!("{}: {what}", file.display()));
    let text = match std::fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Settings::default()),
        Err(error) => return Err(refuse(format!("it cannot be read: {error}"))),
    };
    if text.lines().all(|line| line.trim().is_empty() || line.trim_start().starts_with('#')) {
        return Ok(Settings::default());
    }
    serde_yaml::from_str(&text).map_err(|error| {
        let what = error.to_string();
        let unknown = what.split_once("unknown field `").and_then(|(_, rest)| rest.split_once('`'));
        let hint = match unknown.map(|(field, _)| field) {
            Some("stages" | "name" | "vars") => {
                format!("; `{FILE}` has the settings of a project, so give a pipeline another name")
            }
            Some(field) => suggest::closest(field, FIELDS)
                .map_or(String::new(), |known| format!("; did you mean `{known}`?")),
            None => String::new(),
        };
        refuse(format!("{what}{hint}"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn settings(text: &str, variables: &[(&str, &str)]) -> Result<Option<RemoteSettings>, String> {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join(FILE);
        std::fs::write(&file, text).unwrap();
        let environment = |name: &str| {
            variables.iter().find(|(variable, _)| *variable == name).map(|(_, value)| (*value).to_owned())
        };
        remote_settings(&file, &environment).map_err(|failure| failure.text)
    }

    #[test]
    fn a_remote_is_read_and_not_written_unless_the_settings_say_so() {
        let remote = settings("remote: { url: /lab/cache }\n", &[]).unwrap().unwrap();
        assert_eq!((remote.read, remote.write), (Policy::Always, Policy::Never));
        assert_eq!(settings("remote: /lab/cache\n", &[]).unwrap(), Some(remote), "only the address");
        assert_eq!(settings("# nothing yet\n", &[]).unwrap(), None);
    }

    #[test]
    fn the_environment_decides_before_the_file() {
        let text = "remote: { url: /lab/cache, write: never }\n";
        let ci = settings(text, &[("PIPE_REMOTE", "s3://ci"), ("PIPE_REMOTE_WRITE", "always")]);
        let ci = ci.unwrap().unwrap();
        assert_eq!((ci.url.as_str(), ci.write), ("s3://ci", Policy::Always));
        assert_eq!(settings(text, &[("PIPE_REMOTE", "")]).unwrap(), None);
        let wrong = settings(text, &[("PIPE_REMOTE_WRITE", "yes")]).unwrap_err();
        assert!(wrong.contains("PIPE_REMOTE_WRITE is `yes`"), "{wrong}");
    }

    #[test]
    fn a_typing_error_is_refused_with_its_place_and_a_suggestion() {
        let error = settings("remote:\n  urll: /lab/cache\n", &[]).unwrap_err();
        assert!(error.contains("unknown field `urll`") && error.contains("did you mean `url`?"), "{error}");
        assert!(error.contains("line 2"), "{error}");
        let error = settings("remote: { url: x, write: sometimes }\n", &[]).unwrap_err();
        assert!(error.contains("`sometimes`") && error.contains("`always`"), "{error}");
        let error = settings("remote: { url: x, trusted: everyone }\n", &[]).unwrap_err();
        assert!(error.contains("the word `anyone`"), "{error}");
        let error = settings("remote: [/lab/cache]\n", &[]).unwrap_err();
        assert!(error.contains("an address, or a mapping with the field `url`"), "{error}");
        let error = settings("remote: { url: x, bandwidth: 0 }\n", &[]).unwrap_err();
        assert!(error.contains("MB per second is expected"), "{error}");
        let error = settings("remote: { url: x, bandwidth: fast }\n", &[]).unwrap_err();
        assert!(error.contains("`bandwidth` is `fast`, but a number of MB per second"), "{error}");
        let quick = settings("remote: { url: x, bandwidth: 100 }\n", &[]).unwrap().unwrap();
        assert_eq!(quick.bandwidth.to_bits(), 100_f64.to_bits());
        let error = settings("name: x\nstages: {}\n", &[]).unwrap_err();
        assert!(error.contains("give a pipeline another name"), "{error}");
    }
}
