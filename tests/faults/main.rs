//! `pipe-faults`: runs a campaign, or replays a failure of one.
#![expect(clippy::print_stdout, clippy::print_stderr, reason = "this program has no other layer that prints")]

use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use pipe_faults::campaign::{self, Failure, Options};
use pipe_faults::golden::Golden;

const HELP: &str = "\
Injects faults into `pipe` and checks that it recovers. See docs/faults.md.

pipe-faults run           runs a campaign and prints its table; exits with 1 if anything went wrong
pipe-faults replay FILE   injects the fault of a saved failure again
pipe-faults list          lists the classes of faults

--pipe PATH      the program under test, with pipe-worker beside it [default: target/release/pipe]
--dir DIR        where the trials have their directories [default: /dev/shm, or the temporary directory]
--failures DIR   where failures are saved [default: target/faults]
--budget TIME    how long trials are started, e.g. 90s, 10m, 2h [default: 10m]
--seed N         what faults are drawn from [default: 1]
--only CLASSES   only these classes, separated by commas
--trials N       at most so many trials of each class
--jobs N         how many trials run at once [default: 2]
--times N        how often `replay` tries, because kills at a time do not always hit [default: 1]
";

fn main() -> ExitCode {
    match start() {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn start() -> Result<bool> {
    let mut words = Vec::new();
    let mut pipe = PathBuf::from("target/release/pipe");
    let shared_memory = PathBuf::from("/dev/shm");
    let mut directory = if shared_memory.is_dir() { shared_memory } else { std::env::temp_dir() };
    let mut times = 1;
    let mut options = Options {
        budget: Duration::from_secs(600),
        seed: 1,
        jobs: 2,
        only: Vec::new(),
        trials: u64::MAX,
        failures: PathBuf::from("target/faults"),
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        if !argument.starts_with("--") {
            words.push(argument);
            continue;
        }
        if argument == "--help" {
            print!("{HELP}");
            return Ok(true);
        }
        let value = arguments.next().with_context(|| format!("{argument} needs a value"))?;
        let number =
            || value.parse::<u64>().with_context(|| format!("{argument} needs a number, not `{value}`"));
        match argument.as_str() {
            "--pipe" => pipe = PathBuf::from(&value),
            "--dir" => directory = PathBuf::from(&value),
            "--failures" => options.failures = PathBuf::from(&value),
            "--budget" => options.budget = duration(&value)?,
            "--seed" => options.seed = number()?,
            "--only" => options.only = value.split(',').map(str::to_owned).collect(),
            "--trials" => options.trials = number()?,
            "--jobs" => options.jobs = number()?.max(1) as usize,
            "--times" => times = number()?,
            _ => bail!("there is no option {argument}; see --help"),
        }
    }
    match words.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["list"] => {
            for class in pipe_faults::classes::all() {
                println!("{:14} {}", class.name, class.title);
            }
            Ok(true)
        }
        ["run"] => {
            let report =
                campaign::run(&Golden::new(&pipe, &directory)?, &options, &|line| eprintln!("{line}"))?;
            print!("{}", report.table());
            Ok(report.is_clean())
        }
        ["replay", file] => replay(&Failure::load(file.as_ref())?, &Golden::new(&pipe, &directory)?, times),
        _ => bail!("unknown command; see --help"),
    }
}

fn replay(failure: &Failure, golden: &Golden, times: u64) -> Result<bool> {
    for n in 1..=times {
        let found = failure.replay(golden)?;
        for finding in &found {
            println!("{:?}: {}", finding.outcome, finding.text);
        }
        if !found.is_empty() {
            println!("replay {n} of {times} failed");
            return Ok(false);
        }
    }
    println!("nothing went wrong in {times} replays");
    Ok(true)
}

/// Reads a duration such as `90s`, `10m` or `2h`.
fn duration(text: &str) -> Result<Duration> {
    let (number, unit) = text.split_at(text.len().saturating_sub(1));
    let seconds = match unit {
        "s" => 1,
        "m" => 60,
        "h" => 3600,
        _ => bail!("`{text}` is not a duration such as 90s, 10m or 2h"),
    };
    let number: u64 =
        number.parse().with_context(|| format!("`{text}` is not a duration such as 90s, 10m or 2h"))?;
    Ok(Duration::from_secs(number * seconds))
}
