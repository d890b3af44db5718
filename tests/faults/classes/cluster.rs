//! A batch system that misbehaves.

use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Result;
use rustix::process::{Pid, Signal, kill_process_group};
use serde::{Deserialize, Serialize};

use super::Fault;
use super::kill::Whom;
use crate::golden::Golden;
use crate::oracle::check_results;
use crate::process::send;
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Start, Trial};

/// What a command of the batch system does instead of its work.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
enum Misbehaviour {
    Fail,
    /// Does its work, and then fails.
    FailAfterwards,
    /// Succeeds, and prints something that makes no sense.
    Garbage,
    /// Succeeds, but does and prints nothing.
    Nothing,
    /// Takes 15 seconds, then fails.
    Hang,
    /// Asks to try again later.
    Again,
}

/// The stages run as jobs of a small batch system, whose commands misbehave, while the runner, its jobs or both are killed.
#[derive(Serialize, Deserialize)]
pub(super) struct BadCluster {
    /// `submit`, `status` or `cancel`, what it does, from which call on, and how often.
    trouble: Option<(String, Misbehaviour, u64, u64)>,
    /// Who is killed, and after how many seconds.
    kill: Option<(Whom, f64)>,
    edit: bool,
}

/// The batch system of the other tests.
const BATCH: &str = include_str!("../../fixtures/cluster/batch");

/// What is called in its place. `trouble` contains the command, what it does, from which call on, and how often.
const WRAPPER: &str = r#"#!/bin/sh
n=$(cat "$BATCH/calls.$1" 2>/dev/null || echo 0)
echo $((n + 1)) >"$BATCH/calls.$1"
command= what= from=0 count=0
[ ! -e "$BATCH/trouble" ] || read -r command what from count <"$BATCH/trouble"
if [ "$1" = "$command" ] && [ "$n" -ge "$from" ] && [ "$n" -lt $((from + count)) ]; then
    echo >>"$BATCH/faults"
    case $what in
    fail) echo broken >&2; exit 1 ;;
    fail-afterwards) sh "$BATCH/batch" "$1"; exit 1 ;;
    garbage) echo '%% 17 no such thing'; exit 0 ;;
    nothing) exit 0 ;;
    hang) sleep 15; exit 1 ;;
    again) exit 75 ;;
    esac
fi
exec sh "$BATCH/batch" "$1"
"#;

impl Fault for BadCluster {
    const NAME: &'static str = "cluster";
    const TITLE: &'static str = "a batch system whose commands fail, hang, lie or print nonsense, while the runner or its jobs are killed";
    const WEIGHT: u32 = 6;

    fn draw(rng: &mut Rng, _: u64, _: &Golden) -> Result<Self> {
        let trouble = rng.chance(70).then(|| {
            let what = rng.pick(&[
                Misbehaviour::Fail,
                Misbehaviour::FailAfterwards,
                Misbehaviour::Garbage,
                Misbehaviour::Nothing,
                Misbehaviour::Hang,
                Misbehaviour::Again,
            ]);
            let command = rng.pick(&["submit", "submit", "status", "status", "cancel"]).to_owned();
            let times = rng.pick(&[1, 2, 100]);
            // While the scheduler asks for patience, a run waits, as long as it takes.
            let is_patience = command == "submit" && what == Misbehaviour::Again;
            (command, what, rng.below(4), if is_patience { times.min(2) } else { times })
        });
        let whom = rng.pick(&[Whom::Runner, Whom::Child, Whom::Both]);
        let kill = (trouble.is_none() || rng.chance(40)).then(|| (whom, rng.fraction() * 4.0));
        Ok(Self { trouble, kill, edit: rng.chance(30) })
    }

    fn inject<'a>(&self, golden: &'a Golden) -> Result<Trial<'a>> {
        let mut trial = Trial::new(golden, Pipeline::Commands, Start::Cold)?;
        let batch = trial.place.path().join("batch");
        set_up(&batch, &trial.place.project())?;
        trial.environment =
            vec![("PIPE_ENGINE", "test".to_owned()), ("BATCH", batch.to_string_lossy().into_owned())];
        if let Some((command, what, from, count)) = &self.trouble {
            let what = serde_json::to_value(what)?;
            let text = format!("{command} {} {from} {count}\n", what.as_str().unwrap_or_default());
            std::fs::write(batch.join("trouble"), text)?;
        }
        let mut running = trial.run()?;
        let mut killed = false;
        if let Some((whom, at)) = self.kill
            && !running.wait_for(Duration::from_secs_f64(at))?
        {
            if whom != Whom::Child {
                send(running.id(), Signal::KILL);
                killed = true;
            }
            trial.faults += u64::from(killed);
            if whom != Whom::Runner {
                trial.faults += kill_jobs(&batch)?;
            }
        }
        let ended = trial.finish(running, killed)?;
        if ended.code == Some(0) {
            check_results(&mut trial, "the disturbed run")?;
        }
        let faults = std::fs::read_to_string(batch.join("faults")).unwrap_or_default();
        trial.faults += faults.lines().count() as u64;
        let _ = std::fs::remove_file(batch.join("trouble"));
        // Jobs outlive their runner, as they should; these nodes are now lost.
        kill_jobs(&batch)?;
        if self.edit {
            trial.edit_again()?;
        }
        Ok(trial)
    }
}

fn set_up(batch: &Path, project: &Path) -> Result<()> {
    std::fs::create_dir(batch)?;
    std::fs::write(batch.join("batch"), BATCH)?;
    std::fs::write(batch.join("wrapper"), WRAPPER)?;
    let commands = ["submit", "status", "cancel"]
        .map(|command| format!("{command}: sh '{}' {command}\n", batch.join("wrapper").display()));
    std::fs::create_dir(project.join("engines"))?;
    let profile = format!("engine: template\n{}lost_after: 5s\n", commands.concat());
    Ok(std::fs::write(project.join("engines/test.yaml"), profile)?)
}

/// Kills all jobs. Returns how many were running.
fn kill_jobs(batch: &Path) -> Result<u64> {
    let entries = std::fs::read_dir(batch)?.flatten().map(|entry| entry.path());
    let files: Vec<PathBuf> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "pid")).collect();
    let mut killed = 0;
    for file in files {
        let pid = std::fs::read_to_string(&file)?.trim().parse().ok().and_then(Pid::from_raw);
        if let Some(pid) = pid {
            killed += u64::from(kill_process_group(pid, Signal::KILL).is_ok());
        }
    }
    Ok(killed)
}
