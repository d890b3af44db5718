//! The checks after every fault: what docs/cache.md promises.

use std::time::{Duration, Instant};

use anyhow::Result;

use crate::process::{Ended, send, working_below};
use crate::trial::{Outcome, Trial};

/// Processes that are being ended may take this long.
const GRACE: Duration = Duration::from_secs(3);

/// Returns whether docs/commands.md lists an exit code.
fn is_documented(code: i32) -> bool {
    let page = include_str!("../../docs/commands.md");
    page.lines().any(|line| line.starts_with(&format!("| {code} |")))
}

/// Checks what every command has to respect, disturbed or not: it ends, with a listed code and without a panic.
pub fn check_end(trial: &mut Trial, ended: &Ended, killed: bool) {
    let say = |what: &str| format!("`{}` {what}\n{}", ended.command, ended.tail());
    if ended.hung {
        return trial.note(Outcome::Hang, say("did not end"));
    }
    if ended.stderr.contains("panicked at") || ended.stdout.contains("panicked at") || ended.code == Some(101)
    {
        trial.note(Outcome::Panic, say("panicked"));
    } else if ended.code.is_some_and(|code| !is_documented(code)) && !ended.was_not_loaded() {
        trial.note(Outcome::Exit, say(&format!("exited with {:?}", ended.code)));
    } else if let Some(signal) = ended.signal
        && !killed
    {
        trial.note(Outcome::Exit, say(&format!("was ended by signal {signal}")));
    }
}

/// Checks a trial after its fault: processes, one recovering run, a run with nothing to do, the cache, the files around.
pub fn check(trial: &mut Trial) -> Result<()> {
    check_processes(trial);
    let _ = std::fs::remove_file(trial.place.hold());
    check_recovery(trial)?;
    check_nothing_to_do(trial)?;
    check_cache(trial)?;
    check_files(trial)
}

/// Checks that the files placed are those of the current version. A command that exits with 0 promises this.
pub fn check_results(trial: &mut Trial, who: &str) -> Result<bool> {
    let placed = trial.pipeline.results(&trial.place.project())?;
    let version = trial.version as usize;
    let known = trial.known.clone();
    if placed == known.results[version] {
        return Ok(true);
    }
    let golden = &known.results[version];
    let same = |path: &std::path::PathBuf| placed.get(path) == golden.get(path);
    let paths = golden.keys().chain(placed.keys()).filter(|path| !same(path));
    let paths: std::collections::BTreeSet<String> = paths.map(|path| path.display().to_string()).collect();
    let is_old = |path: &String| {
        let path = std::path::Path::new(path);
        known.results.iter().any(|other| other.get(path) == placed.get(path))
    };
    let outcome = if paths.iter().all(is_old) { Outcome::Stale } else { Outcome::Wrong };
    let paths = paths.into_iter().collect::<Vec<_>>().join(", ");
    trial.note(
        outcome,
        format!("{who} exited with 0, but these are not the results of version {version}: {paths}"),
    );
    Ok(false)
}

fn check_processes(trial: &mut Trial) {
    let started = Instant::now();
    let mut left = working_below(trial.place.path());
    while !left.is_empty() && started.elapsed() < GRACE {
        std::thread::sleep(Duration::from_millis(20));
        left = working_below(trial.place.path());
    }
    for (id, command) in left {
        trial.note(Outcome::Process, format!("a process is left: {command}"));
        send(id, rustix::process::Signal::KILL);
    }
}

fn check_recovery(trial: &mut Trial) -> Result<()> {
    let ended = trial.run()?.finish()?;
    check_end(trial, &ended, false);
    if ended.code != Some(0) {
        let text = format!("the recovering run exited with {:?}\n{}", ended.code, ended.tail());
        trial.note(Outcome::Hand, text);
    } else {
        check_results(trial, "the recovering run")?;
    }
    let stored = &trial.stored;
    let lost: Vec<String> = ended.instances("done").intersection(stored).cloned().collect();
    if !lost.is_empty() {
        trial.note(Outcome::Lost, format!("computed again: {}\n{}", lost.join(", "), ended.tail()));
    }
    Ok(())
}

fn check_nothing_to_do(trial: &mut Trial) -> Result<()> {
    let ended = trial.run()?.finish()?;
    check_end(trial, &ended, false);
    let again = ended.instances("done");
    if ended.code != Some(0) {
        let text = format!("the run after the recovery exited with {:?}\n{}", ended.code, ended.tail());
        trial.note(Outcome::Hand, text);
    } else if !again.is_empty() {
        trial.note(Outcome::Lost, format!("the run after the recovery computed {again:?}\n{}", ended.tail()));
    } else if trial.found.is_empty() {
        check_results(trial, "the run after the recovery")?;
    }
    Ok(())
}

/// Checks that `pipe cache fsck` finds nothing, or only what was damaged, and that it can then repair everything.
fn check_cache(trial: &mut Trial) -> Result<()> {
    let ended = trial.pipe(&["cache", "fsck"])?.finish()?;
    check_end(trial, &ended, false);
    if ended.code == Some(0) {
        return Ok(());
    }
    let said = format!("{}{}", ended.stdout, ended.stderr);
    // Digests are abbreviated.
    let is_named = |name: &String| said.contains(name.get(..10).unwrap_or(name));
    if trial.any_damage {
        // Everything that is named may be damaged.
    } else if trial.damaged.is_empty() {
        trial.note(Outcome::Fsck, format!("`pipe cache fsck` exited with {:?}\n{said}", ended.code));
    } else if !trial.damaged.iter().any(is_named) {
        let damaged = trial.damaged.join(", ");
        trial.note(Outcome::Fsck, format!("`pipe cache fsck` does not name any of {damaged}\n{said}"));
    }
    let repair = trial.pipe(&["cache", "fsck", "--repair"])?.finish()?;
    let again = trial.pipe(&["cache", "fsck"])?.finish()?;
    if again.code != Some(0) {
        let text = format!(
            "`fsck --repair` exited with {:?} and left damage\n{}{}",
            repair.code, again.stdout, again.stderr
        );
        trial.note(Outcome::Fsck, text);
    }
    Ok(())
}

fn check_files(trial: &mut Trial) -> Result<()> {
    let place = trial.place.path().to_owned();
    let list = |name: &str| -> Result<Vec<String>> {
        let entries = std::fs::read_dir(place.join(name)).into_iter().flatten();
        entries.map(|entry| Ok(entry?.file_name().to_string_lossy().into_owned())).collect()
    };
    let mut left: Vec<String> = Vec::new();
    let project = trial.place.name.clone();
    for name in ["tmp", "home", &format!("{project}/cache/v2/tmp")] {
        left.extend(list(name)?.into_iter().map(|entry| format!("{name}/{entry}")));
    }
    let is_strange = |name: &String| !trial.pipeline.may_contain(name);
    left.extend(list(&project)?.into_iter().filter(is_strange));
    if !left.is_empty() {
        trial.note(Outcome::Left, format!("left behind: {}", left.join(", ")));
    }
    let mut inputs = trial.pipeline.data(trial.version);
    inputs.push(("../outside", "nobody may touch this".to_owned()));
    for (name, content) in inputs {
        if std::fs::read(trial.place.project().join(name)).ok() != Some(content.into_bytes()) {
            trial.note(Outcome::Left, format!("{name} was changed"));
        }
    }
    Ok(())
}
