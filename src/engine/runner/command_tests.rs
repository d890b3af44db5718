//! Tests of pipelines of real commands: from YAML through processes to the store.

use std::fs;
use std::path::PathBuf;

use super::event::{Event, Summary};
use super::local::{LocalProcess, Programs};
use super::packages::find_interpreter;
use super::{Options, Outlook, Stop, run, survey};
use crate::plan::Plan;
use crate::spec::pipeline::UnlocatedFile;
use crate::spec::{self, LoadRequest};
use crate::store::Store;
use crate::store::manifest::Manifest;
use pipe_core::event::LogLevel;
use pipe_stages::{command, registry};

struct Project {
    directory: tempfile::TempDir,
    store: Store,
}

impl Project {
    fn new() -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("cache")).unwrap();
        Self { directory, store }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    fn options(&self) -> Options {
        Options { project: self.directory.path().to_owned(), jobs: 2, ..Options::default() }
    }

    fn plan(&self, stages: &str) -> Plan {
        let file = self.path("pipeline.yaml");
        fs::write(&file, format!("name: test\nstages:\n{stages}")).unwrap();
        let environment = |name: &str| (name == "GREETING").then(|| "hello".to_owned());
        let request = LoadRequest {
            file,
            overrides: Vec::new(),
            environment: &environment,
            find_interpreter: &find_interpreter,
            parts: &[],
        };
        let plan = spec::load(&request, registry::kinds()).unwrap_or_else(|e| panic!("{}", e.render(false)));
        let located = plan.locate_files(|_, file| match file {
            UnlocatedFile::User(path) => Ok(path),
            UnlocatedFile::DataSet { dataset, .. } => Err(dataset),
        });
        located.unwrap()
    }

    fn run(&self, stages: &str) -> (Summary, Vec<Event>) {
        let pipe = std::env::current_exe().unwrap();
        let executor = LocalProcess::new(Programs { pipe, command: command::argv, needs_worker: |_| false });
        let mut events = Vec::new();
        let summary =
            run(&self.plan(stages), &self.store, &executor, &self.options(), &Stop::new(), &mut |event| {
                events.push(event);
            });
        (summary.unwrap(), events)
    }

    fn manifest(&self, stages: &str, position: usize) -> Manifest {
        match survey(&self.plan(stages), &self.store, &self.options()).remove(position) {
            Outlook::Fresh(manifest) => *manifest,
            other => panic!("{other:?}"),
        }
    }

    fn output(&self, stages: &str, position: usize) -> String {
        let manifest = self.manifest(stages, position);
        let stored = manifest.outputs.values().next().unwrap();
        String::from_utf8(self.store.read(stored).unwrap()).unwrap()
    }
}

fn errors(events: &[Event]) -> Vec<&str> {
    let errors = events.iter().filter_map(|event| match event {
        Event::Failed { error, .. } => Some(error.as_str()),
        _ => None,
    });
    errors.collect()
}

fn warnings(events: &[Event]) -> Vec<&str> {
    let warnings = events.iter().filter_map(|event| match event {
        Event::Log { level: LogLevel::Warning, message, .. } => Some(message.as_str()),
        _ => None,
    });
    warnings.collect()
}

#[test]
fn commands_read_files_and_outputs_of_other_commands() {
    let project = Project::new();
    fs::write(project.path("words.txt"), "b\na\n").unwrap();
    let stages = "  \
  sorted:
    command:
      run: sort in/words > sorted.txt
      inputs: { words: { file: words.txt } }
      outputs: [sorted.txt]
  greeted:
    command:
      run: [sh, -c, 'echo $GREETING; cat \"$PIPE_IN_LIST\" > \"$PIPE_OUT_GREETED\"; echo noise >&2']
      inputs: { list: sorted }
      outputs: { greeted: deep/greeted.txt }
      env: [GREETING]
";
    let (summary, events) = project.run(stages);
    assert_eq!((summary.ran, errors(&events)), (2, vec![]));
    assert_eq!(project.output(stages, 1), "a\nb\n");
    let manifest = project.manifest(stages, 1);
    assert_eq!(project.store.read(&manifest.stdout.unwrap()).unwrap(), b"hello\n");
    assert_eq!(project.store.read(&manifest.stderr.unwrap()).unwrap(), b"noise\n");
    assert!(manifest.parts.get("env.GREETING").is_some_and(|value| !value.contains("hello")));
    assert_eq!(project.run(stages).0.hits, 2);
    fs::write(project.path("words.txt"), "a\nb\n").unwrap();
    let (summary, _) = project.run(stages);
    assert_eq!((summary.ran, summary.hits), (1, 1), "sorted again, to the same bytes");
}

#[test]
fn a_fan_in_is_a_directory_and_a_directory_can_be_an_output() {
    let project = Project::new();
    let stages = "  \
  part:
    matrix: { seed: [1, 2] }
    command: { run: 'mkdir model && echo ${matrix.seed} > model/w', outputs: [model] }
  all:
    command:
      run: for part in in/parts/*; do echo $(basename $part) $(cat $part/w); done > list
      inputs: { parts: ['part[*]'] }
      outputs: [list]
";
    let (_, events) = project.run(stages);
    assert_eq!(errors(&events), [""; 0]);
    assert_eq!(project.output(stages, 2), "seed=1 1\nseed=2 2\n");
}

#[test]
fn an_undeclared_file_is_a_warning_and_a_missing_output_is_an_error() {
    let project = Project::new();
    let (summary, events) = project.run("  a: { command: { run: 'touch out left-over', outputs: [out] } }\n");
    assert_eq!(summary.ran, 1);
    assert!(warnings(&events)[0].contains("`left-over`"), "{events:?}");
    let (summary, events) = project.run("  a: { command: { run: 'touch oot', outputs: [out] } }\n");
    assert_eq!(summary.failed, 1);
    assert!(errors(&events)[0].ends_with("instead there is `oot`"), "{events:?}");
}

#[test]
fn the_first_failing_line_fails_the_stage_and_its_last_output_is_shown() {
    let project = Project::new();
    let stages = "  \
  a:
    command:
      run: |
        echo last words >&2
        false
        echo never > out
      outputs: [out]
";
    let (_, events) = project.run(stages);
    let failed = events.iter().find_map(|event| match event {
        Event::Failed { error, stderr_tail, .. } => Some((error.as_str(), stderr_tail.as_str())),
        _ => None,
    });
    assert_eq!(failed, Some(("it ended with exit code 1", "last words")));
}

#[test]
fn stages_that_share_directories_do_not_see_each_other_s_files() {
    let project = Project::new();
    let stages: String = (0..30)
        .map(|i| format!("  s{i}: {{ command: {{ run: 'ls -A . $TMPDIR > out; touch junk $TMPDIR/{i}', outputs: [out] }} }}\n"))
        .collect();
    let (summary, events) = project.run(&stages);
    assert_eq!((summary.ran, summary.hits, errors(&events)), (1 + 29, 0, vec![]));
    for position in 0..30 {
        let listed = project.output(&stages, position);
        assert!(
            !listed.contains("junk") && !listed.lines().any(|line| line.parse::<u32>().is_ok()),
            "{listed}"
        );
    }
}
