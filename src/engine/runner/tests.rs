//! Tests of whole runs with a real store, in which stages are functions.

use std::fs;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use serde_json::json;

use super::double::{Double, write_text};
use super::event::{Event, PlaceOutcome, Summary};
use super::executor::{AttemptError, Executor};
use super::{Options, Outlook, RunError, Stop, Urgency, run, survey};
use crate::plan::sample::{self, pipeline, stage};
use crate::plan::{Plan, Why};
use crate::spec::pipeline::{Input, InputSource, Instance, InstanceIndex, Pipeline, Placement, Resources};
use crate::store::{Claim, Draft, Store};
use pipe_core::digest::StageKey;
use pipe_core::event::{LogLevel, WorkerEvent};
use pipe_core::protocol::{MetricValue, Protocol};

/// A project directory with a store, and the pipeline that is run in it.
struct Lab {
    directory: tempfile::TempDir,
    store: Store,
    pipeline: Pipeline,
    options: Options,
}

struct Run {
    events: Vec<Event>,
    summary: Summary,
    ran: Vec<String>,
}

impl Lab {
    fn new(stages: Vec<Instance>) -> Self {
        let directory = tempfile::tempdir().unwrap();
        let store = Store::open(&directory.path().join("cache")).unwrap();
        let project = directory.path().to_owned();
        let options = Options { project, jobs: 2, ..Options::default() };
        Self { directory, store, pipeline: pipeline(stages), options }
    }

    fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// The double writes what the body says, and keys are made of the parameters: here they are the same.
    fn plan(&self) -> Plan {
        let mut pipeline = self.pipeline.clone();
        for instance in &mut pipeline.instances {
            instance.body = instance.params.value().into();
        }
        sample::plan(pipeline)
    }

    fn run(&self) -> Run {
        self.run_with(&Double::new())
    }

    fn run_with(&self, double: &Double) -> Run {
        let before = double.ran().len();
        let (events, summary) = self.execute(double, &Stop::new());
        Run { events, summary: summary.unwrap(), ran: double.ran()[before..].to_vec() }
    }

    fn execute(&self, executor: &dyn Executor, stop: &Stop) -> (Vec<Event>, Result<Summary, RunError>) {
        let mut events = Vec::new();
        let plan = self.plan();
        let summary = run(&plan, &self.store, executor, &self.options, stop, &mut |event| events.push(event));
        (events, summary)
    }

    fn survey(&self) -> Vec<Outlook> {
        survey(&self.plan(), &self.store, &self.options)
    }

    /// Returns the path of the last output of an instance.
    fn blob(&self, instance: &str) -> PathBuf {
        let state = self.store.pipeline_state(&self.pipeline.file);
        let manifest = self.store.record(state.last[instance]).unwrap();
        self.store.artifact(&manifest.outputs["out"], &self.path("views")).unwrap()
    }
}

impl Run {
    fn why(&self, of: &str) -> String {
        let started = self.events.iter().find_map(|event| match event {
            Event::Started { instance, why, .. } if instance == of => Some(why.to_string()),
            _ => None,
        });
        started.unwrap_or_else(|| "did not start".to_owned())
    }

    fn error(&self, of: &str) -> &str {
        let failed = self.events.iter().find_map(|event| match event {
            Event::Failed { instance, error, .. } if instance == of => Some(error.as_str()),
            _ => None,
        });
        failed.unwrap_or("did not fail")
    }

    fn hits(&self) -> Vec<&str> {
        let hits = self.events.iter().filter_map(|event| match event {
            Event::Hit { instance, .. } => Some(instance.as_str()),
            _ => None,
        });
        hits.collect()
    }

    fn skipped(&self) -> Vec<&str> {
        let skippeds = self.events.iter().filter_map(|event| match event {
            Event::Skipped { instance, .. } => Some(instance.as_str()),
            _ => None,
        });
        skippeds.collect()
    }

    fn warnings(&self) -> Vec<&str> {
        let warnings = self.events.iter().filter_map(|event| match event {
            Event::Log { level: LogLevel::Warning, message, .. } => Some(message.as_str()),
            _ => None,
        });
        warnings.collect()
    }

    fn placed(&self) -> Vec<PlaceOutcome> {
        let placed = |event: &Event| match event {
            Event::Placed { outcome, .. } => Some(*outcome),
            _ => None,
        };
        self.events.iter().filter_map(placed).collect()
    }
}

/// data -> idf -> train; train also takes data.
fn three() -> Vec<Instance> {
    vec![stage("data", &[]), stage("idf", &[0]), stage("train", &[0, 1])]
}

fn needs_file(name: &str, file: &str) -> Instance {
    let sources = vec![InputSource::File(file.into())];
    let mut instance = stage(name, &[]);
    instance.inputs.push(Input { slot: "file".into(), many: false, sources });
    instance
}

#[test]
fn a_computed_result_is_not_computed_again() {
    let lab = Lab::new(three());
    let first = lab.run();
    assert_eq!(first.ran, ["data", "idf", "train"]);
    assert_eq!(fs::read_to_string(lab.blob("train")).unwrap(), "train(data()idf(data()))");
    let second = lab.run();
    assert_eq!((second.ran.len(), second.hits()), (0, vec!["data", "idf", "train"]));
    assert_eq!((second.summary.hits, second.summary.saved), (3, 6.0));
    assert_eq!(second.warnings(), [""; 0]);
}

#[test]
fn an_upstream_change_that_gives_the_same_bytes_stops_there() {
    let mut lab = Lab::new(three());
    lab.pipeline.instances[0].params = (&json!({ "text": "same" })).into();
    lab.run();
    lab.pipeline.instances[0].params = (&json!({ "text": "same", "comment": 2 })).into();
    let second = lab.run();
    assert_eq!(second.ran, ["data"]);
    assert_eq!(second.why("data"), "params.comment is new: 2");
    assert_eq!(second.hits(), ["idf", "train"]);
}

#[test]
fn every_stage_that_runs_says_what_changed() {
    let mut lab = Lab::new(three());
    let first = lab.run();
    assert_eq!(first.why("data"), "never run before");
    lab.pipeline.instances[1].params = (&json!({ "name": "IDF" })).into();
    let second = lab.run();
    assert_eq!(second.why("idf"), "params.name \"idf\" -> \"IDF\"");
    assert!(second.why("train").starts_with("inputs.in1 changed ("), "{}", second.why("train"));
}

#[test]
fn a_renamed_stage_is_found_under_its_key() {
    let mut lab = Lab::new(three());
    lab.run();
    lab.pipeline.instances[1].id.stage = "weights".into();
    let second = lab.run();
    assert_eq!(second.ran.len(), 0);
    let state = lab.store.pipeline_state(&lab.pipeline.file);
    let names: Vec<&String> = state.last.keys().collect();
    assert_eq!(names, ["data", "train", "weights"], "and the old name is forgotten");
}

#[test]
fn a_failure_ends_the_run_unless_asked_to_keep_going() {
    let stages = vec![stage("data", &[]), stage("bad", &[0]), stage("after", &[1]), stage("other", &[0])];
    let mut lab = Lab::new(stages);
    lab.options.jobs = 1;
    let double = Double::new().with("bad", |_, _| Err(AttemptError::retryable("it ended with exit code 3")));
    let first = lab.run_with(&double);
    assert_eq!((first.summary.ran, first.summary.failed, first.summary.skipped), (1, 1, 2));
    assert_eq!(first.error("bad"), "it ended with exit code 3");
    assert_eq!(first.skipped(), ["after", "other"]);
    lab.options.keep_going = true;
    let second = lab.run_with(&double);
    assert_eq!((second.summary.ran, second.summary.failed, second.summary.skipped), (1, 1, 1));
    assert_eq!((second.hits(), second.skipped()), (vec!["data"], vec!["after"]));
}

#[test]
fn the_output_of_a_failed_stage_is_kept_with_the_run() {
    let lab = Lab::new(vec![stage("bad", &[])]);
    let double = Double::new().with("bad", |task, _| {
        let lines: String = (1..=30).map(|line| format!("line {line}\n")).collect();
        fs::write(&task.stderr, lines).unwrap();
        Err(AttemptError::retryable("no"))
    });
    let run = lab.run_with(&double);
    let tail = run.events.iter().find_map(|event| match event {
        Event::Failed { stderr_tail, .. } => Some(stderr_tail.lines().collect::<Vec<_>>()),
        _ => None,
    });
    let tail = tail.unwrap();
    assert_eq!((tail.len(), tail[0], tail[19]), (20, "line 11", "line 30"));
    let id = &lab.store.runs().unwrap()[0].id;
    let kept = lab.store.kept_log(id, "bad", "stderr").unwrap();
    assert!(kept.starts_with(b"line 1\n") && kept.ends_with(b"line 30\n"));
}

#[test]
fn a_stage_is_retried_as_often_as_it_asks_in_a_clean_directory() {
    let mut lab = Lab::new(vec![stage("flaky", &[])]);
    lab.pipeline.instances[0].retries = 2;
    let tries = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&tries);
    let double = Double::new().with("flaky", move |task, _| {
        assert_eq!(fs::read_dir(&task.job.scratch).unwrap().count(), 0);
        fs::write(task.job.scratch.join("left over"), "x").unwrap();
        match count.fetch_add(1, Ordering::SeqCst) {
            0 | 1 => Err(AttemptError::retryable("not yet")),
            _ => write_text(task),
        }
    });
    let run = lab.run_with(&double);
    assert_eq!((run.summary.ran, run.summary.failed), (1, 0));
    let attempts: Vec<u32> = run
        .events
        .iter()
        .filter_map(|event| match event {
            Event::Started { attempt, .. } => Some(*attempt),
            _ => None,
        })
        .collect();
    assert_eq!(attempts, [1, 2, 3]);
    lab.pipeline.instances[0].params = (&json!({ "name": "again" })).into();
    tries.store(0, Ordering::SeqCst);
    lab.pipeline.instances[0].retries = 1;
    assert_eq!(lab.run_with(&double).summary.failed, 1);
}

#[test]
fn a_forced_stage_runs_again_and_the_same_bytes_keep_the_rest_fresh() {
    let mut lab = Lab::new(three());
    lab.run();
    lab.options.force = vec![InstanceIndex(1)];
    let second = lab.run();
    assert_eq!(
        (second.ran.as_slice(), second.why("idf").as_str()),
        (["idf".to_owned()].as_slice(), "forced")
    );
    assert_eq!(second.hits(), ["data", "train"]);
}

#[test]
fn an_input_edited_while_its_stage_runs_is_an_error_and_nothing_is_stored() {
    let lab = Lab::new(vec![needs_file("load", "data.csv")]);
    fs::write(lab.path("data.csv"), "one").unwrap();
    let path = lab.path("data.csv");
    let double = Double::new().with("load", move |task, _| {
        fs::write(&path, "two").unwrap();
        write_text(task)
    });
    let run = lab.run_with(&double);
    let error = run.error("load");
    assert!(error.contains("data.csv") && error.contains("was changed while it ran"), "{error}");
    let again = lab.run();
    assert_eq!(again.ran, ["load"]);
    assert_eq!(fs::read_to_string(lab.blob("load")).unwrap(), "load(two)");
}

#[test]
fn an_edited_input_file_runs_its_stage_and_a_touched_one_does_not() {
    let lab = Lab::new(vec![needs_file("load", "data.csv")]);
    fs::write(lab.path("data.csv"), "one").unwrap();
    lab.run();
    fs::write(lab.path("data.csv"), "one").unwrap();
    assert_eq!(lab.run().hits(), ["load"]);
    fs::write(lab.path("data.csv"), "two").unwrap();
    let changed = lab.run();
    assert!(changed.why("load").starts_with("inputs.file changed ("), "{}", changed.why("load"));
}

#[test]
fn a_missing_input_file_fails_its_stage_and_is_named() {
    let lab = Lab::new(vec![needs_file("load", "nowhere.csv"), stage("after", &[0])]);
    let run = lab.run();
    assert!(run.error("load").contains("nowhere.csv"), "{}", run.error("load"));
    assert_eq!(run.skipped(), ["after"]);
    assert!(matches!(&lab.survey()[0], Outlook::CannotRun(problem) if problem.contains("nowhere.csv")));
}

#[test]
fn a_stage_that_writes_to_its_input_fails_and_the_input_is_computed_again() {
    let lab = Lab::new(vec![stage("data", &[]), stage("vandal", &[0])]);
    let double = Double::new().with("vandal", |task, _| {
        let path = &task.job.inputs["in0"][0].path;
        // Other users than root have to change the permissions first, which they may.
        let mut permissions = fs::metadata(path).unwrap().permissions();
        #[allow(clippy::permissions_set_readonly_false)]
        permissions.set_readonly(false);
        fs::set_permissions(path, permissions).unwrap();
        fs::write(path, "xxxxxx").unwrap();
        write_text(task)
    });
    let run = lab.run_with(&double);
    assert!(run.error("vandal").contains("`in0`"), "{}", run.error("vandal"));
    let again = lab.run();
    assert_eq!(again.ran, ["data", "vandal"]);
    assert!(again.why("data").contains("damaged"), "{}", again.why("data"));
    assert_eq!(fs::read_to_string(lab.blob("vandal")).unwrap(), "vandal(data())");
}

#[test]
fn a_damaged_result_is_reported_and_computed_again() {
    let lab = Lab::new(three());
    lab.run();
    let blob = lab.blob("idf");
    fs::remove_file(&blob).unwrap();
    fs::write(&blob, "idf(dato())").unwrap();
    let run = lab.run();
    assert_eq!((run.ran.as_slice(), run.hits()), (["idf".to_owned()].as_slice(), vec!["data", "train"]));
    assert!(run.why("idf").contains("damaged") && !run.warnings().is_empty(), "{}", run.why("idf"));
}

#[test]
fn two_stages_with_one_key_are_computed_once() {
    let (mut first, mut second) = (stage("first", &[]), stage("second", &[]));
    first.params = (&json!({ "name": "same" })).into();
    second.params = (&json!({ "name": "same" })).into();
    let lab = Lab::new(vec![first, second]);
    let run = lab.run();
    assert_eq!((run.ran.len(), run.summary.ran, run.summary.hits), (1, 1, 1));
}

#[test]
fn a_run_waits_for_a_key_that_another_process_computes() {
    let lab = Lab::new(vec![stage("data", &[])]);
    let key = match &lab.survey()[0] {
        Outlook::WillRun(Why::NeverRun) => key_of_data(&lab),
        other => panic!("{other:?}"),
    };
    let other = Store::open(&lab.path("cache")).unwrap();
    let Some(Claim::Miss(right)) = other.try_claim(&key).unwrap() else { panic!("not free") };
    let plan = lab.plan();
    let double = Double::new();
    let mut events = Vec::new();
    let mut right = Some(right);
    run(&plan, &lab.store, &double, &lab.options, &Stop::new(), &mut |event| {
        if matches!(event, Event::Waiting { .. }) {
            let right = right.take().expect("waiting is reported once");
            // The other process finishes only after we have begun to wait.
            let scratch = other.scratch().unwrap();
            let out = scratch.join("out");
            fs::write(&out, "data()").unwrap();
            right.commit(draft(&plan, out)).unwrap();
        }
        events.push(event);
    })
    .unwrap();
    assert_eq!(double.ran().len(), 0);
    assert!(events.iter().any(|event| matches!(event, Event::Hit { .. })), "{events:?}");
}

fn key_of_data(lab: &Lab) -> StageKey {
    crate::plan::key::parts(&lab.pipeline.instances[0], &[]).key()
}

fn draft(plan: &Plan, out: PathBuf) -> Draft {
    Draft {
        kind: "sample".into(),
        instance: "data".into(),
        parts: crate::plan::key::parts(plan.instance(InstanceIndex(0)), &[]),
        outputs: [("out".to_owned(), out)].into(),
        volatile: Default::default(),
        stdout: None,
        stderr: None,
        metrics: Default::default(),
        seconds: 0.0,
        cpu_seconds: 0.0,
        max_rss_bytes: 0,
        environment: Default::default(),
        warnings: Vec::new(),
    }
}

#[test]
fn a_stop_interrupts_the_hashing_of_a_large_input() {
    let lab = Lab::new(vec![needs_file("reads", "large"), stage("after", &[0])]);
    // Hashing this much would take an hour.
    let large = std::fs::File::create(lab.path("large")).unwrap();
    large.set_len(1 << 40).unwrap();
    let stop = Stop::new();
    let request = stop.clone();
    let user = std::thread::spawn(move || {
        std::thread::sleep(std::time::Duration::from_millis(50));
        request.request();
    });
    let double = Double::new();
    let (_, summary) = lab.execute(&double, &stop);
    let summary = summary.unwrap();
    assert!(summary.interrupted);
    assert_eq!((summary.ran, summary.failed, summary.skipped), (0, 0, 2));
    assert!(double.ran().is_empty());
    user.join().unwrap();
}

#[test]
fn a_stop_ends_running_stages_and_starts_nothing_more() {
    let mut lab = Lab::new(vec![stage("long", &[]), stage("after", &[0]), stage("next", &[])]);
    lab.options.jobs = 1;
    let stop = Stop::new();
    let request = stop.clone();
    let double = Double::new();
    let stopped = Arc::clone(&double.stopped);
    let double = double.with("long", move |_, _| {
        request.request();
        while stopped.lock().unwrap().is_none() {
            std::thread::sleep(std::time::Duration::from_millis(1));
        }
        Err(AttemptError::Stopped { checkpoint: false })
    });
    let (events, summary) = lab.execute(&double, &stop);
    let summary = summary.unwrap();
    assert!(summary.interrupted);
    assert_eq!((summary.ran, summary.failed, summary.skipped), (0, 0, 3));
    assert_eq!(*double.stopped.lock().unwrap(), Some(Urgency::Gently));
    assert!(events.contains(&Event::Stopping { now: false }));
    assert_eq!(double.ran(), ["long"]);
}

#[test]
fn targets_and_until_select_stages() {
    let mut lab = Lab::new(three());
    lab.options.targets = Some(vec![InstanceIndex(1)]);
    assert_eq!(lab.run().ran, ["data", "idf"]);
    lab.options.targets = None;
    lab.options.until = vec![InstanceIndex(1)];
    assert_eq!(lab.run().ran.len(), 0);
    lab.options.until.clear();
    assert_eq!(lab.run().ran, ["train"]);
    let state = lab.store.pipeline_state(&lab.pipeline.file);
    assert_eq!(state.last.len(), 3);
}

#[test]
fn outputs_are_placed_and_files_that_the_user_edited_are_kept() {
    let mut lab = Lab::new(three());
    let path = PathBuf::from("results/sample/model.txt");
    let placement = Placement { instance: InstanceIndex(2), output: "out".into(), path: path.clone() };
    lab.pipeline.placements = vec![placement];
    let target = lab.path("results/sample/model.txt");
    assert_eq!(lab.run().placed(), [PlaceOutcome::Written]);
    assert_eq!(lab.run().placed(), [PlaceOutcome::Unchanged]);
    fs::remove_file(&target).unwrap();
    assert_eq!(lab.run().placed(), [PlaceOutcome::Written], "deleted ones come back");
    lab.pipeline.instances[2].params = (&json!({ "name": "better" })).into();
    assert_eq!(lab.run().placed(), [PlaceOutcome::Written], "ours may be replaced");
    fs::write(&target, "my own notes").unwrap();
    let kept = lab.run();
    assert_eq!(kept.placed(), [PlaceOutcome::KeptEdited]);
    assert!(kept.warnings()[0].contains("results/sample/model.txt"), "{:?}", kept.warnings());
    assert_eq!(fs::read_to_string(&target).unwrap(), "my own notes");
    lab.options.overwrite = true;
    assert_eq!(lab.run().placed(), [PlaceOutcome::Written]);
    assert!(fs::read_to_string(&target).unwrap().starts_with("better("));
}

#[test]
fn a_file_that_was_there_before_is_not_replaced() {
    let mut lab = Lab::new(vec![stage("data", &[])]);
    let placement = Placement { instance: InstanceIndex(0), output: "out".into(), path: "notes.txt".into() };
    lab.pipeline.placements = vec![placement];
    fs::write(lab.path("notes.txt"), "mine").unwrap();
    assert_eq!(lab.run().placed(), [PlaceOutcome::KeptEdited]);
    fs::write(lab.path("notes.txt"), "data()").unwrap();
    assert_eq!(lab.run().placed(), [PlaceOutcome::Unchanged]);
}

#[test]
fn a_survey_predicts_what_a_run_would_do() {
    let mut lab = Lab::new(three());
    let never = Outlook::WillRun(Why::NeverRun);
    let may = |waits_for: &[usize], known| {
        let waits_for = waits_for.iter().map(|&index| InstanceIndex(index)).collect();
        Outlook::MayRun { waits_for, known }
    };
    let first = may(&[0], Some(Why::NeverRun));
    let both = may(&[0, 1], Some(Why::NeverRun));
    assert_eq!(lab.survey(), [never, first, both]);
    lab.run();
    assert!(lab.survey().iter().all(Outlook::is_fresh));
    lab.pipeline.instances[1].params = (&json!({ "name": "IDF" })).into();
    let outlooks = lab.survey();
    assert!(matches!(&outlooks[0], Outlook::Fresh(manifest) if manifest.instance == "data"));
    assert!(matches!(&outlooks[1], Outlook::WillRun(Why::Changed { .. })), "{outlooks:?}");
    assert_eq!(outlooks[2], may(&[1], None));
    lab.pipeline.instances[2].params = (&json!({ "name": "T" })).into();
    let Outlook::MayRun { known: Some(why), .. } = &lab.survey()[2] else { panic!() };
    assert_eq!(why.to_string(), "params.name \"train\" -> \"T\"");
    lab.options.targets = Some(vec![InstanceIndex(0)]);
    assert_eq!(lab.survey()[1..], [Outlook::NotSelected, Outlook::NotSelected]);
}

#[test]
fn a_survey_writes_nothing() {
    let lab = Lab::new(three());
    let store = Store::open_read_only(&lab.path("elsewhere")).unwrap();
    assert_eq!(survey(&lab.plan(), &store, &lab.options).len(), 3);
    assert!(!lab.path("elsewhere").exists());
}

#[test]
fn each_gpu_is_used_by_one_stage_and_too_many_are_refused() {
    let mut stages = vec![stage("a", &[]), stage("b", &[]), stage("c", &[])];
    for stage in &mut stages {
        stage.resources = Resources { cpu: 1, mem: 0, gpu: 1 };
    }
    let mut lab = Lab::new(stages);
    lab.options.gpus = Some(vec!["0".into(), "7".into()]);
    lab.options.jobs = 3;
    let in_use = Arc::new(std::sync::Mutex::new(Vec::new()));
    let mut double = Double::new();
    for name in ["a", "b", "c"] {
        let in_use = Arc::clone(&in_use);
        double = double.with(name, move |task, _| {
            let [gpu] = &task.gpus[..] else { panic!("{:?}", task.gpus) };
            assert!(["0", "7"].contains(&gpu.as_str()));
            {
                let mut in_use = in_use.lock().unwrap();
                assert!(!in_use.contains(gpu), "{gpu} is taken");
                in_use.push(gpu.clone());
            }
            std::thread::sleep(std::time::Duration::from_millis(5));
            in_use.lock().unwrap().retain(|other| other != gpu);
            write_text(task)
        });
    }
    assert_eq!(lab.run_with(&double).summary.ran, 3);
    lab.options.gpus = Some(Vec::new());
    let (_, refused) = lab.execute(&Double::new(), &Stop::new());
    assert!(refused.unwrap_err().to_string().starts_with("`a` asks for 1 GPUs, but there are 0"));
}

#[test]
fn metrics_and_the_machine_are_recorded_and_events_are_logged() {
    let lab = Lab::new(vec![stage("train", &[])]);
    let double = Double::new().with("train", |task, report| {
        for epoch in 1..=100 {
            let message = format!("epoch {epoch}");
            report(WorkerEvent::Progress { done: epoch, total: Some(100), unit: "epochs".into(), message });
        }
        report(WorkerEvent::Metric {
            name: "f1".into(),
            value: 0.25,
            protocol: Some(Protocol::Oracle),
            epoch: None,
        });
        report(WorkerEvent::Metric {
            name: "f1".into(),
            value: 0.5,
            protocol: Some(Protocol::Oracle),
            epoch: None,
        });
        report(WorkerEvent::Metric { name: "loss".into(), value: f64::NAN, protocol: None, epoch: None });
        write_text(task)
    });
    let run = lab.run_with(&double);
    let progress = |events: &[Event]| events.iter().filter(|e| matches!(e, Event::Progress { .. })).count();
    assert_eq!(progress(&run.events), 100);
    let Outlook::Fresh(manifest) = &lab.survey()[0] else { panic!() };
    assert_eq!(manifest.metrics["f1"], MetricValue { value: 0.5, protocol: Some(Protocol::Oracle) });
    assert!(manifest.metrics["loss"].value.is_nan());
    assert!(manifest.environment.contains_key("pipe") && manifest.environment["threads"] == "1");
    let id = &lab.store.runs().unwrap()[0].id;
    let log = lab.store.run_events(id).unwrap();
    let logged: Vec<Event> = log.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
    assert!(matches!(logged.first(), Some(Event::RunStarted { instances: 1, jobs: 2, .. })));
    assert!(matches!(logged.last(), Some(Event::RunFinished { summary }) if summary.ran == 1));
    assert!(progress(&logged) < 10, "progress is thinned");
}

#[test]
fn a_warning_of_a_worker_is_stored_with_the_result_and_reported_once() {
    let lab = Lab::new(vec![stage("load", &[])]);
    let double = Double::new().with("load", |task, report| {
        report(WorkerEvent::Log { level: LogLevel::Warning, message: "6 rows are duplicates".into() });
        write_text(task)
    });
    let is_warning = |event: &&Event| matches!(event, Event::Log { level: LogLevel::Warning, .. });
    let first = lab.run_with(&double);
    assert_eq!(first.events.iter().filter(is_warning).count(), 1);
    let again = lab.run_with(&double);
    assert_eq!((again.summary.hits, again.summary.warned), (1, 1));
}

#[test]
fn a_metric_under_two_protocols_fails_its_stage() {
    let lab = Lab::new(vec![stage("evaluate", &[])]);
    let double = Double::new().with("evaluate", |task, report| {
        for protocol in [Protocol::Honest, Protocol::Oracle] {
            report(WorkerEvent::Metric {
                name: "f1".into(),
                value: 0.5,
                protocol: Some(protocol),
                epoch: None,
            });
        }
        write_text(task)
    });
    let run = lab.run_with(&double);
    assert!(run.error("evaluate").contains("`f1` under two protocols"), "{}", run.error("evaluate"));
}

#[test]
fn a_panic_in_a_thread_fails_its_stage_and_not_the_run() {
    let mut lab = Lab::new(vec![stage("bad", &[]), stage("good", &[])]);
    lab.options.keep_going = true;
    let run = lab.run_with(&Double::new().with("bad", |_, _| panic!("a bug")));
    assert_eq!((run.summary.failed, run.summary.ran), (1, 1));
}
