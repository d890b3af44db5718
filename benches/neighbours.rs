//! The program that `benches/neighbours` measures: generates rows like those of AmazonCat-13K, finds the nearest training rows
//! of a sample of them, writes both to a directory for the other program, and prints `name value` lines.

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its measurements")]

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail};
use pipe_ml::config::signal::Weighting;
use pipe_ml::data::csr::{Csr, Features, bytes_of};
use pipe_ml::data::split_data::PartName;
use pipe_ml::data::synthetic::{Synthetic, generate};
use pipe_ml::signal::neighbours::NeighbourIndex;

const NEIGHBOURS: usize = 50;

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|argument| argument != "--bench").collect();
    match &arguments[..] {
        [directory, scale, queries] => run(Path::new(directory), scale.parse()?, queries.parse()?),
        // `cargo bench` calls this without arguments; `benches/neighbours` passes them.
        [] => Ok(()),
        _ => bail!("usage: DIRECTORY SCALE QUERIES"),
    }
}

fn run(directory: &Path, scale: f64, count: usize) -> Result<()> {
    let what = Synthetic { scale, ..Synthetic::default() };
    let data = generate(&what, &what.curve(), &directory.join("data"), |_, _| {})?;
    let sparse = |part| match data.features(part)? {
        Features::Sparse(features) => Ok(features),
        Features::Dense(_) => bail!("generated features are sparse"),
    };
    let (train, test) = (sparse(PartName::Train)?, sparse(PartName::Test)?);
    let (rows, step) = (all_rows(&train), (test.rows() / count).max(1));
    let queries: Vec<u32> = all_rows(&test).into_iter().step_by(step).take(count).collect();
    println!("rows {}", train.rows());
    println!("test_rows {}", test.rows());

    let start = cpu_seconds()?;
    let index = NeighbourIndex::new(&train, &rows);
    println!("index {}", cpu_seconds()? - start);
    let start = cpu_seconds()?;
    let found = index.of(&test, &queries, NEIGHBOURS, Weighting::CosineSquared);
    println!("query {}", (cpu_seconds()? - start) / queries.len() as f64);
    println!("peak_bytes {}", peak_bytes()?);

    leave(directory, "train", &train, &rows)?;
    leave(directory, "queries", &test, &queries)?;
    let nearest: Vec<u32> =
        (0..queries.len()).flat_map(|query| found.of(query).iter().map(|&(row, _)| row)).collect();
    fs::write(directory.join("nearest"), bytes_of(&nearest))?;
    Ok(())
}

/// Writes rows as numpy reads them: where each ends, features, values.
fn leave(directory: &Path, name: &str, features: &Csr, rows: &[u32]) -> Result<()> {
    let (mut ends, mut indices, mut values) = (vec![0u64], Vec::new(), Vec::new());
    for &row in rows {
        indices.extend_from_slice(features.row(row as usize));
        values.extend_from_slice(features.row_values(row as usize));
        ends.push(indices.len() as u64);
    }
    fs::write(directory.join(format!("{name}-rows")), bytes_of(&ends))?;
    fs::write(directory.join(format!("{name}-features")), bytes_of(&indices))?;
    fs::write(directory.join(format!("{name}-values")), bytes_of(&values))?;
    Ok(())
}

fn all_rows(features: &Csr) -> Vec<u32> {
    (0..features.rows() as u32).collect()
}

fn peak_bytes() -> Result<u64> {
    let status = fs::read_to_string("/proc/self/status")?;
    let line =
        status.lines().find(|line| line.starts_with("VmHWM")).context("no VmHWM in /proc/self/status")?;
    let kilobytes: u64 = line.split_ascii_whitespace().nth(1).context("unexpected VmHWM")?.parse()?;
    Ok(1024 * kilobytes)
}

/// Of this process, in steps of a hundredth: time many calls.
fn cpu_seconds() -> Result<f64> {
    let stat = fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("unexpected /proc/self/stat")?;
    let ticks = fields.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>);
    Ok(ticks.sum::<Result<u64, _>>()? as f64 / 100.0)
}
