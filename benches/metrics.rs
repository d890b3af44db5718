//! The program that `benches/metrics` measures: generates true and predicted labels of the size of AmazonCat's test
//! rows, writes them to a directory for the other programs, and prints `name value` lines: CPU seconds per call, and
//! the computed values, so that the script can check that all programs computed the same.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its measurements")]

use std::path::Path;

use anyhow::{Context, Result, bail};
use pipe_ml::data::csr::Csr;
use pipe_ml::data::random::Random;
use pipe_ml::metric::bootstrap::Bootstrap;
use pipe_ml::metric::counts::Counts;
use pipe_ml::metric::label::Tally;
use pipe_ml::metric::outcomes::Outcomes;

const LABELS: usize = 13_330;
const PER_ROW: usize = 5;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match &arguments[..] {
        [directory, rows, replicates] => run(Path::new(directory), rows.parse()?, replicates.parse()?),
        // `cargo bench` without arguments: `benches/metrics` is what gives them.
        [] => Ok(()),
        _ => bail!("usage: DIRECTORY ROWS REPLICATES"),
    }
}

fn run(directory: &Path, rows: usize, replicates: u32) -> Result<()> {
    let (truth, predicted) = generate(rows);
    for (name, matrix) in [("true", &truth), ("predicted", &predicted)] {
        let bytes: Vec<u8> = matrix.indices.iter().flat_map(|index| index.to_le_bytes()).collect();
        std::fs::write(directory.join(name), bytes)?;
        let bytes: Vec<u8> = matrix.indptr.iter().flat_map(|offset| offset.to_le_bytes()).collect();
        std::fs::write(directory.join(format!("{name}-rows")), bytes)?;
    }

    const CALLS: u32 = 100;
    let start = cpu_seconds()?;
    for _ in 0..CALLS {
        let counts = Counts::of(std::hint::black_box(&truth), std::hint::black_box(&predicted))?;
        std::hint::black_box(Tally::over(counts.iter()).values(counts.rows()));
    }
    println!("f1 {}", (cpu_seconds()? - start) / f64::from(CALLS));

    let tally = Tally::over(Counts::of(&truth, &predicted)?.iter());
    println!("macro_f1 {}", tally.macro_f1());
    println!("micro_f1 {}", tally.micro_f1());

    let start = cpu_seconds()?;
    let outcomes = Outcomes::new(&truth, &predicted)?;
    std::hint::black_box(Bootstrap { replicates, ..Bootstrap::default() }.intervals(&outcomes)?);
    println!("bootstrap {}", (cpu_seconds()? - start) / f64::from(replicates));
    Ok(())
}

/// Few labels are frequent, most are rare; three of five predictions are right.
fn generate(rows: usize) -> (Csr, Csr) {
    let mut random = Random::new("bench metrics", 0);
    let mut label = |taken: &[u32]| loop {
        let label = (random.unit().powi(4) * LABELS as f64) as u32;
        if !taken.contains(&label) {
            return label;
        }
    };
    let mut lists = [Vec::new(), Vec::new()];
    for _ in 0..rows {
        let mut both: Vec<u32> = Vec::new();
        while both.len() < 2 * PER_ROW - 3 {
            both.push(label(&both));
        }
        // The first three are common to truth and predictions.
        for (list, own) in lists.iter_mut().zip([&both[3..PER_ROW], &both[PER_ROW..]]) {
            let mut row = [&both[..3], own].concat();
            row.sort_unstable();
            list.extend(row);
        }
    }
    let indptr: Vec<u64> = (0..=rows).map(|row| (row * PER_ROW) as u64).collect();
    let [truth, predicted] = lists.map(|indices| Csr {
        cols: LABELS,
        indptr: indptr.clone().into(),
        indices: indices.into(),
        values: Vec::new().into(),
    });
    (truth, predicted)
}

/// Of this process, in steps of a hundredth: time many calls.
fn cpu_seconds() -> Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("unexpected /proc/self/stat")?;
    let ticks = fields.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Ok(ticks.sum::<Result<u64, _>>()? as f64 / 100.0)
}
