//! The program that `benches/data` measures: generates a LIBSVM file, reads it, decompresses bzip2. Each command prints one
//! line `wall cpu bytes peak_rss` (seconds, seconds, bytes, bytes).

#![allow(clippy::print_stdout, clippy::print_stderr, reason = "a benchmark prints its measurements")]

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::Instant;

use anyhow::{Context, Result, bail};
use pipe_ml::data::compress::InputFile;
use pipe_ml::data::read::read;
use pipe_ml::data::source::{DataSource, ReadOptions};
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};

fn main() -> Result<()> {
    let arguments: Vec<String> = std::env::args().skip(1).filter(|a| a != "--bench").collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match arguments[..] {
        ["generate", megabytes, file] => generate(megabytes.parse()?, Path::new(file)),
        ["parse", file, directory, threads] => {
            let (file, threads) = (Path::new(file), threads.parse()?);
            measure(|| {
                read(&DataSource::file(file), &ReadOptions::default(), Path::new(directory), threads)?;
                Ok(std::fs::metadata(file)?.len())
            })
        }
        ["unpack", file, threads] => measure(|| {
            let mut input = InputFile::open(Path::new(file), threads.parse()?)?;
            let mut buffer = vec![0; 1 << 20];
            let mut total = 0;
            loop {
                let count = input.fill(&mut buffer)?;
                total += count as u64;
                if count < buffer.len() {
                    return Ok(total);
                }
            }
        }),
        // `cargo bench` calls this without arguments; `benches/data` passes them.
        [] => Ok(()),
        _ => bail!("usage: generate MB FILE | parse FILE DIRECTORY THREADS | unpack FILE THREADS"),
    }
}

fn measure(work: impl FnOnce() -> Result<u64>) -> Result<()> {
    let start = Instant::now();
    let bytes = work()?;
    let wall = start.elapsed().as_secs_f64();
    let (cpu, peak) = usage()?;
    println!("{wall:.4} {cpu:.4} {bytes} {peak}");
    Ok(())
}

/// Returns the CPU seconds and the peak resident bytes of this process, from `/proc`.
fn usage() -> Result<(f64, u64)> {
    let stat = std::fs::read_to_string("/proc/self/stat")?;
    let (_, fields) = stat.rsplit_once(')').context("unexpected /proc/self/stat")?;
    let ticks = fields.split_ascii_whitespace().skip(11).take(2).map(str::parse::<u64>);
    let ticks: u64 = ticks.sum::<Result<u64, _>>()?;
    let status = std::fs::read_to_string("/proc/self/status")?;
    let peak = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).context("no VmHWM")?;
    let kilobytes: u64 = peak.trim().trim_end_matches("kB").trim().parse()?;
    Ok((ticks as f64 / 100.0, kilobytes * 1024))
}

/// Writes rows like those of AmazonCat-13K: 5 of 13,330 labels and 71 of 203,882 features per row.
fn generate(megabytes: u64, path: &Path) -> Result<()> {
    let mut random = ChaCha8Rng::seed_from_u64(1);
    let mut file = BufWriter::with_capacity(1 << 20, File::create(path)?);
    let (mut written, mut line) = (0, Vec::new());
    while written < megabytes * 1_000_000 {
        line.clear();
        let label_count = 1 + random.next_u32() % 9;
        let mut labels: Vec<u32> = (0..label_count).map(|_| random.next_u32() % 13_330).collect();
        labels.sort_unstable();
        labels.dedup();
        let labels: Vec<String> = labels.iter().map(u32::to_string).collect();
        line.extend_from_slice(labels.join(",").as_bytes());
        let mut features: Vec<u32> = (0..30 + random.next_u32() % 83).map(|_| skewed(&mut random)).collect();
        features.sort_unstable();
        features.dedup();
        for feature in features {
            let value = f64::from(1 + random.next_u32() % 999_999) / 1e6;
            write!(line, " {}:{value:.6}", feature + 1)?;
        }
        line.push(b'\n');
        file.write_all(&line)?;
        written += line.len() as u64;
    }
    file.flush()?;
    Ok(())
}

/// Draws an index; small indices are more frequent, like common words.
fn skewed(random: &mut ChaCha8Rng) -> u32 {
    let unit = || f64::from(u32::MAX).recip();
    let draw = f64::from(random.next_u32()) * unit();
    (draw * draw * 203_881.0) as u32
}
