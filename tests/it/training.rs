//! Training in workers that are killed again and again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use pipe_core::job::{Job, JobInput};
use serde_json::{Value, json};

/// The directory of one job, and what it reads and writes.
struct JobDirectory<'a> {
    directory: &'a Path,
    kind: &'a str,
    body: Value,
    inputs: Vec<(&'a str, PathBuf)>,
    outputs: &'a [&'a str],
}

impl JobDirectory<'_> {
    fn output(&self, name: &str) -> PathBuf {
        self.directory.join(name)
    }

    /// Starts a worker on the job, as the runner does: the scratch directory is empty, the checkpoints are kept.
    fn start(&self) -> Child {
        let at = |name: &str| self.directory.join(name);
        for name in ["scratch", "checkpoints"] {
            std::fs::create_dir_all(at(name)).unwrap();
        }
        let input = |(slot, path): &(&str, PathBuf)| {
            let input = JobInput { axes: vec![], artifact: "any".to_owned(), path: path.clone(), blob: None };
            ((*slot).to_owned(), vec![input])
        };
        let job = Job {
            key: None,
            instance: self.kind.to_owned(),
            kind: self.kind.to_owned(),
            body: self.body.clone(),
            inputs: self.inputs.iter().map(input).collect::<BTreeMap<_, _>>(),
            outputs: self.outputs.iter().map(|name| ((*name).to_owned(), at(name))).collect(),
            scratch: at("scratch"),
            checkpoints: at("checkpoints"),
            threads: 2,
        };
        std::fs::write(at("job.json"), serde_json::to_vec(&job).unwrap()).unwrap();
        let mut worker = Command::new(crate::support::worker_program());
        let log = std::fs::File::create(at("log")).unwrap();
        worker.arg(at("job.json")).stdin(Stdio::null()).stdout(log).stderr(Stdio::null()).spawn().unwrap()
    }

    fn finish(&self) {
        assert!(self.start().wait().unwrap().success(), "{}", self.log());
    }

    fn log(&self) -> String {
        std::fs::read_to_string(self.directory.join("log")).unwrap()
    }

    /// Kills workers at different moments until one finishes. Returns how many were killed.
    fn finish_with_kills(&self) -> u32 {
        let mut killed = 0;
        loop {
            let mut worker = self.start();
            let checkpoint = self.directory.join("checkpoints/checkpoint");
            let before = std::fs::read(&checkpoint).ok();
            // Wait for a new checkpoint, then a little longer, each time differently.
            let started = Instant::now();
            let has_progress = || std::fs::read(&checkpoint).ok() != before;
            while worker.try_wait().unwrap().is_none() && !has_progress() {
                assert!(started.elapsed() < Duration::from_secs(120), "no progress: {}", self.log());
                std::thread::sleep(Duration::from_millis(2));
            }
            std::thread::sleep(Duration::from_millis(u64::from(killed * 37 % 101)));
            if let Some(status) = worker.try_wait().unwrap() {
                assert!(status.success(), "{}", self.log());
                return killed;
            }
            worker.kill().unwrap();
            worker.wait().unwrap();
            killed += 1;
        }
    }
}

#[test]
fn training_that_is_killed_again_and_again_gives_the_same_bytes() {
    let temp = tempfile::tempdir().unwrap();
    let directory = |name: &str| {
        let path = temp.path().join(name);
        std::fs::create_dir(&path).unwrap();
        path
    };
    let [data, idf, whole, interrupted] = ["data", "idf", "whole", "killed"].map(directory);
    let data = JobDirectory {
        directory: &data,
        kind: "synthetic",
        body: json!({
            "rows": 2000, "test_rows": 10, "features": 500, "labels": 300, "labels_per_row": 3.0,
            "features_per_row": 10, "frequencies": "power-law", "validation": { "fraction": 0.1, "seed": 0 },
        }),
        inputs: vec![],
        outputs: &["dataset"],
    };
    data.finish();
    let dataset = data.output("dataset");
    let idf = JobDirectory {
        directory: &idf,
        kind: "idf",
        body: json!({ "data": "data" }),
        inputs: vec![("data", dataset.clone())],
        outputs: &["idf"],
    };
    idf.finish();
    let train = |directory| JobDirectory {
        directory,
        kind: "train",
        body: json!({
            "data": "data", "idf": "idf", "preset": "released", "epochs": 30, "device": "cpu",
            "net": { "hidden": [64] }, "checkpoint": { "epochs": 1, "minutes": 0.0005 },
        }),
        inputs: vec![("data", dataset.clone()), ("idf", idf.output("idf"))],
        outputs: &["model", "history", "timings"],
    };
    let (whole, interrupted) = (train(&whole), train(&interrupted));
    whole.finish();
    let killed = interrupted.finish_with_kills();
    assert!(killed >= 3, "only {killed} workers were killed");
    for file in ["model/model.safetensors", "model/model.json", "history"] {
        let read = |job: &JobDirectory| std::fs::read(job.output(file)).unwrap();
        assert!(read(&whole) == read(&interrupted), "{file} differs after {killed} kills");
    }
}
