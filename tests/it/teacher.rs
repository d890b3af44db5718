//! A stand-in for `pipe-worker`, so that what comes after training can be tested without any.

use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::support::PipelineTest;

/// Writes what a job asks for and tells two figures per epoch. A training waits until the file `go` is there.
const SCRIPT: &str = r#"#!/usr/bin/env python3
import json, os, sys, time
job = json.load(open(sys.argv[1]))
write = lambda name, text: open(job["outputs"][name], "w").write(text)
for name in job["outputs"]:
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
            print(json.dumps({"event": "metric", "name": name, "value": value}), flush=True)
    while not os.path.exists(os.path.join(HELD, "go")):
        time.sleep(0.05)
print(json.dumps({"event": "done"}), flush=True)
"#;

/// `pipe` takes the worker that lies beside it, so it is put beside this one.
pub(crate) struct Teacher {
    programs: tempfile::TempDir,
}

impl Teacher {
    pub(crate) fn of(test: &PipelineTest) -> Self {
        let programs = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
        std::fs::hard_link(env!("CARGO_BIN_EXE_pipe"), programs.path().join("pipe")).unwrap();
        let worker = programs.path().join("pipe-worker");
        let held = format!("{:?}", test.path().to_str().unwrap());
        std::fs::write(&worker, SCRIPT.replace("HELD", &held)).unwrap();
        std::fs::set_permissions(&worker, PermissionsExt::from_mode(0o755)).unwrap();
        Self { programs }
    }

    pub(crate) fn command(&self, test: &PipelineTest, arguments: &[&str]) -> Command {
        let mut command = Command::new(self.programs.path().join("pipe"));
        command.current_dir(test.path()).args(arguments).env_remove("PIPE_CACHE").env_remove("PIPE_DATA_DIR");
        command
    }
}
