//! A script that replaces `pipe-worker`, to test the stages after training without training.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::{PipelineTest, worker_program};

/// Writes the outputs of a job and reports two metrics per epoch. Training waits until the file `go` exists.
const SCRIPT: &str = r#"#!/usr/bin/env python3
import json, os, sys, time
job = json.load(open(sys.argv[1]))
write = lambda name, text: open(job["outputs"][name], "w").write(text)
for name in job["outputs"]:
    if name == "model":
        os.mkdir(job["outputs"][name])
        open(job["outputs"][name] + "/model.json", "w").write('{"format": 1, "features": 20}')
    else:
        write(name, "{}")
if job["kind"] == "evaluate":
    oracle = job["body"].get("protocol") == "oracle"
    values = {"macro_f1": 0.7 if oracle else 0.4, "micro_f1": 0.5, "bce": 0.01}
    evaluation = {"protocol": "oracle" if oracle else "honest", "rows": 10, "labels": 5, "values": values}
    write("evaluation", json.dumps({"part": "test", "evaluation": evaluation, "intervals": None}))
    record = {"training_positives": None, "support": 3, "tp": 1, "fp": 1, "fn": 2,
              "precision": 0.5, "recall": 0.33, "f1": 0.4, "threshold": None}
    write("labels", "".join(json.dumps({"label": label, **record}) + "\n" for label in range(5)))
else:
    for epoch in range(1, 9):
        for name, value in [("train_loss", 1 / epoch), ("validation_macro_f1", epoch / 20)]:
            print(json.dumps({"event": "metric", "name": name, "value": value, "epoch": epoch}), flush=True)
    # The result of the whole stage, which is not a point of a curve.
    print(json.dumps({"event": "metric", "name": "train_loss", "value": 0.125}), flush=True)
    while not os.path.exists(os.path.join(HELD, "go")):
        time.sleep(0.05)
print(json.dumps({"event": "done"}), flush=True)
"#;

/// A directory with the script and a link to `pipe`, which starts the worker beside it.
pub(crate) struct FakeWorker {
    programs: tempfile::TempDir,
}

impl FakeWorker {
    /// Creates the directory; training waits for the file `go` of this project.
    pub(crate) fn of(test: &PipelineTest) -> Self {
        let held = format!("{:?}", test.path().to_str().unwrap());
        Self::with_script(&SCRIPT.replace("HELD", &held))
    }

    /// Creates the directory with the real worker behind a script, which writes each first argument to the file `started` of
    /// this project.
    pub(crate) fn noting(test: &PipelineTest) -> Self {
        let (notes, worker) = (test.file("started"), worker_program());
        let (notes, worker) = (notes.display(), worker.display());
        Self::with_script(&format!("#!/bin/sh\necho \"$1\" >> '{notes}'\nexec '{worker}' \"$@\"\n"))
    }

    fn with_script(script: &str) -> Self {
        let programs = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::hard_link(env!("CARGO_BIN_EXE_pipe"), programs.path().join("pipe")).unwrap();
        let worker = programs.path().join("pipe-worker");
        std::fs::write(&worker, script).unwrap();
        std::fs::set_permissions(&worker, PermissionsExt::from_mode(0o755)).unwrap();
        Self { programs }
    }

    /// Returns a `pipe` command that starts the script as its worker.
    pub(crate) fn command(&self, test: &PipelineTest, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.programs.path().join("pipe"));
        command.current_dir(test.path()).args(arguments).env_remove("PIPE_CACHE").env_remove("PIPE_DATA_DIR");
        command
    }
}
