//! A campaign: trials of all classes until the time is used up.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::classes::{self, Class};
use crate::golden::Golden;
use crate::project::Pipeline;
use crate::rng::Rng;
use crate::trial::{Finding, Outcome};

/// What a campaign does.
pub struct Options {
    /// How long trials are started.
    pub budget: Duration,
    /// What the faults are drawn from.
    pub seed: u64,
    /// How many trials run at once.
    pub jobs: usize,
    /// The names of the classes; all if there is none.
    pub only: Vec<String>,
    /// At most so many trials of each class.
    pub trials: u64,
    /// The directory for failures.
    pub failures: PathBuf,
}

/// A failed trial, as it is saved. `pipe-faults replay FILE` injects its fault again.
#[derive(Serialize, Deserialize)]
pub struct Failure {
    /// The name of the class.
    pub class: String,
    /// The seed of the campaign and the number of the trial.
    pub drawn: (u64, u64),
    /// The fault.
    pub fault: Value,
    /// What went wrong.
    pub found: Vec<Finding>,
}

/// The counts of one class.
#[derive(Clone, Default)]
pub struct Count {
    /// The number of trials.
    pub trials: u64,
    /// The number of faults that took place.
    pub faults: u64,
    /// The number of trials in which nothing went wrong.
    pub ok: u64,
    /// The number of trials with each outcome.
    pub outcomes: BTreeMap<Outcome, u64>,
    /// The trials that could not be made, with the last reason.
    pub broken: (u64, String),
    drawn: u64,
    spent: Duration,
}

/// The counts of a campaign.
pub struct Report {
    /// The classes with their counts, and what the machine lacked for a class.
    pub classes: Vec<(Class, Count, Option<String>)>,
    /// The files of the failures.
    pub failures: Vec<PathBuf>,
}

/// Runs a campaign. `tell` gets a line for every failure.
pub fn run(golden: &Golden, options: &Options, tell: &(dyn Fn(&str) + Sync)) -> Result<Report> {
    let is_chosen =
        |class: &Class| options.only.is_empty() || options.only.iter().any(|name| name == class.name);
    let known = |name: &String| classes::all().iter().any(|class| class.name == name);
    if let Some(name) = options.only.iter().find(|name| !known(name)) {
        anyhow::bail!("there is no class `{name}`; see `pipe-faults list`");
    }
    let chosen = classes::all().into_iter().filter(is_chosen);
    let classes: Vec<_> = chosen.map(|class| ((class.lacks)(golden), class)).collect();
    std::fs::create_dir_all(&options.failures)?;
    golden.of(Pipeline::Commands)?;
    let counts = Mutex::new(vec![Count::default(); classes.len()]);
    let failures = Mutex::new(Vec::new());
    let started = Instant::now();
    let work = || -> Result<()> {
        loop {
            let Some((chosen, n)) = next(&classes, &counts, options, started.elapsed()) else {
                return Ok(());
            };
            let class = &classes[chosen].1;
            let begun = Instant::now();
            let drawn = (class.draw)(&mut Rng::of(options.seed, class.name, n), n, golden);
            let result = drawn.and_then(|fault| class.try_fault(&fault, golden).map(|trial| (fault, trial)));
            let mut counts = counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
            let count = &mut counts[chosen];
            count.spent += begun.elapsed();
            let (fault, trial) = match result {
                Ok(made) => made,
                Err(error) => {
                    count.broken = (count.broken.0 + 1, format!("{error:#}"));
                    tell(&format!("{} {n} could not be made: {error:#}", class.name));
                    continue;
                }
            };
            count.add(trial.faults, &trial.found);
            drop(counts);
            if !trial.found.is_empty() {
                let found = trial.found.clone();
                let failure =
                    Failure { class: class.name.to_owned(), drawn: (options.seed, n), fault, found };
                let path = failure.save(&options.failures)?;
                tell(&format!("{}: {}", path.display(), failure.line()));
                failures.lock().unwrap_or_else(std::sync::PoisonError::into_inner).push(path);
            }
        }
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> = (0..options.jobs).map(|_| scope.spawn(work)).collect();
        workers
            .into_iter()
            .try_for_each(|worker| worker.join().unwrap_or_else(|_| anyhow::bail!("a trial panicked")))
    })?;
    let counts = counts.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner);
    let classes =
        classes.into_iter().zip(counts).map(|((lacks, class), count)| (class, count, lacks)).collect();
    Ok(Report { classes, failures: failures.into_inner().unwrap_or_else(std::sync::PoisonError::into_inner) })
}

/// Returns the class that has had the least time for its weight, and the number of its next trial. Every class is tried
/// once, however short the time is.
fn next(
    classes: &[(Option<String>, Class)],
    counts: &Mutex<Vec<Count>>,
    options: &Options,
    elapsed: Duration,
) -> Option<(usize, u64)> {
    let mut counts = counts.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    let may_go_on = |n: &usize| {
        let count = &counts[*n];
        let is_due = count.drawn == 0 || (elapsed < options.budget && count.drawn < options.trials);
        is_due && classes[*n].0.is_none()
    };
    let share = |n: &usize| {
        // Trials that are still running count as if they had taken a tenth of a second.
        let spent = counts[*n].spent + Duration::from_millis(100) * counts[*n].drawn.min(1) as u32;
        spent / classes[*n].1.weight
    };
    let chosen = (0..classes.len()).filter(may_go_on).min_by_key(share)?;
    counts[chosen].drawn += 1;
    Some((chosen, counts[chosen].drawn - 1))
}

impl Count {
    fn add(&mut self, faults: u64, found: &[Finding]) {
        self.trials += 1;
        self.faults += faults;
        self.ok += u64::from(found.is_empty());
        let outcomes: std::collections::BTreeSet<Outcome> =
            found.iter().map(|finding| finding.outcome).collect();
        for outcome in outcomes {
            *self.outcomes.entry(outcome).or_default() += 1;
        }
    }

    /// Adds the counts of another class.
    pub fn merge(&mut self, other: &Self) {
        self.trials += other.trials;
        self.faults += other.faults;
        self.ok += other.ok;
        for (outcome, number) in &other.outcomes {
            *self.outcomes.entry(*outcome).or_default() += number;
        }
    }
}

impl Failure {
    fn save(&self, directory: &Path) -> Result<PathBuf> {
        let path = directory.join(format!("{}-{}-{}.json", self.class, self.drawn.0, self.drawn.1));
        std::fs::write(&path, serde_json::to_string_pretty(self)?)?;
        Ok(path)
    }

    /// Reads a saved failure.
    pub fn load(path: &Path) -> Result<Self> {
        let text =
            std::fs::read_to_string(path).with_context(|| format!("cannot read {}", path.display()))?;
        serde_json::from_str(&text).with_context(|| format!("{} is not a saved failure", path.display()))
    }

    /// Returns what went wrong, on one line.
    pub fn line(&self) -> String {
        let line = |finding: &Finding| {
            let text = finding.text.lines().map(str::trim).collect::<Vec<_>>().join(" | ");
            format!("{:?}: {}", finding.outcome, text)
        };
        self.found.iter().map(line).collect::<Vec<_>>().join(" ## ")
    }

    /// Injects the fault again. Returns what goes wrong now.
    pub fn replay(&self, golden: &Golden) -> Result<Vec<Finding>> {
        let class = classes::all().into_iter().find(|class| class.name == self.class);
        let class = class.with_context(|| format!("there is no class `{}`", self.class))?;
        Ok(class.try_fault(&self.fault, golden)?.found)
    }
}
