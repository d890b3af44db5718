//! `load`: reads files, or a registered data set, and divides it into parts.

use anyhow::{Result, bail};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::dataset::{DATASET, DATASET_METRICS, Files, announce, on_threads, source};
use pipe_core::artifact::PlainFile;
use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program, SourceDecl};
use pipe_core::slot::Slot;
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::data::filter::Filter;
use pipe_ml::data::format::Format;
use pipe_ml::data::prepare::{Preparation, prepare};
use pipe_ml::data::read::read;
use pipe_ml::data::registry::{self, FileRole, KnownDataSet};
use pipe_ml::data::source::{RawData, ReadOptions};
use pipe_ml::data::split::{Split, Validation};
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::data::weight::WeightChoice;

/// The parameters of `load`. Exactly one of `dataset` and `files` is given.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields, default)]
pub struct Load {
    /// A data set that `pipe data list` names.
    pub dataset: Option<String>,
    /// Your own files.
    pub files: Option<Files>,
    /// Options for reading. What is not given is determined from the files.
    pub read: ReadOptions,
    /// How the test rows are chosen.
    pub split: Split,
    /// Whether some training rows become a validation part.
    pub validation: Option<Validation>,
    /// The labels and features that are kept.
    pub filter: Filter,
    /// How features are weighted: `auto` for weights that suit the values, or the steps.
    pub weight: WeightChoice,
}

impl Load {
    fn preparation(&self) -> Preparation {
        Preparation {
            split: self.split.clone(),
            validation: self.validation.clone(),
            filter: self.filter.clone(),
            weight: self.weight,
        }
    }

    /// Returns whether the test rows of the source are read. A split of the training rows ignores them.
    fn reads_test(&self) -> bool {
        self.split.is_given() || self.split.pool
    }

    /// Returns the registered data set that is loaded, if the name is known.
    fn entry(&self) -> Option<&'static KnownDataSet> {
        self.dataset.as_deref().and_then(|name| registry::find(name).ok())
    }

    /// Returns the options for reading: those of the user, completed by what the registry knows about the data set.
    fn read_options(&self) -> ReadOptions {
        let mut options = self.read.clone();
        if let Some(entry) = self.entry() {
            options.format = options.format.or(Some(entry.format));
            if entry.format.lacks_sizes() {
                options.labels = options.labels.or(u32::try_from(entry.expected.labels).ok());
                options.features = options.features.or(u32::try_from(entry.expected.features).ok());
            }
        }
        options
    }
}

/// Returns the slot of a registered file.
fn slot(role: FileRole) -> Slot<PlainFile> {
    match role {
        FileRole::Train => Files::TRAIN,
        FileRole::Test => Files::TEST,
        FileRole::All => Files::ROWS,
        FileRole::Labels => Files::LABELS,
        FileRole::LabelXml => Files::LABEL_XML,
        FileRole::LabelNames => Files::LABEL_NAMES,
        FileRole::FeatureNames => Files::FEATURE_NAMES,
    }
}

impl StageKind for Load {
    const NAME: &'static str = "load";
    const VERSION: u32 = 4;
    const SUMMARY: &'static str = "Reads a data set, splits, filters and weighs it";
    const PROGRAM: Program = Program::Pipe;

    /// In version 5, a data set of ARFF files has the nominal values of their attributes. The registered data sets have none, and
    /// labels in other files are not for ARFF.
    fn version(&self) -> u32 {
        let has_no_label_files = |files: &Files| files.labels.is_none() && files.train_labels.is_none();
        let may_be_arff = self.read.format.is_none_or(|format| format == Format::Arff)
            && self.files.as_ref().is_some_and(has_no_label_files);
        if may_be_arff { 5 } else { Self::VERSION }
    }

    fn inputs(&self) -> Vec<InputDecl> {
        let Some(entry) = self.entry() else {
            return self.files.iter().flat_map(|files| files.inputs(self.reads_test())).collect();
        };
        let read = entry.files.iter().filter(|file| file.role != FileRole::Test || self.reads_test());
        let declare = |file: &registry::DataFile| {
            let from = SourceDecl::DataFile { dataset: entry.name.clone(), file: file.name.clone() };
            slot(file.role).from(from)
        };
        read.map(declare).collect()
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![DATASET.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let mut issues = self.preparation().issues();
        match (&self.dataset, &self.files) {
            (Some(name), None) => {
                if let Err(unknown) = registry::find(name) {
                    issues.push(Issue::new("dataset", unknown.to_string()));
                }
                if self.entry().is_some_and(|entry| entry.expected.test_rows == 0) && self.split.is_given() {
                    let issue = Issue::new("split", format!("`{name}` has no test part of its own"));
                    issues.push(issue.hint("for example `split: { holdout: 0.2, seed: 0 }`"));
                }
            }
            (None, Some(files)) => issues.extend(files.issues()),
            _ => issues.push(Issue::new("", "give exactly one of `dataset` and `files`")),
        }
        issues
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(DATASET_METRICS.to_vec())
    }
}

impl RunStage for Load {
    type Stage = Self;

    fn run(stage: &Self, work: &mut Work) -> Result<()> {
        let (source, options) = (source(work), stage.read_options());
        let (scratch, output) = (work.job().scratch.join("rows"), work.output_path(DATASET)?.to_owned());
        let threads = work.job().threads.max(1);
        work.progress(0, Some(2), "steps", "reading");
        let raw = on_threads(threads, || read(&source, &options, &scratch, threads))??;
        let RawData::Set(raw) = raw else {
            bail!("these files contain text, not features: use the stage `vectorise`");
        };
        work.progress(1, Some(2), "steps", "splitting");
        let data = on_threads(threads, || prepare(&raw, &stage.preparation(), &output))??;
        if let Some(entry) = stage.entry() {
            let given_split = stage.split == Split::default() && stage.validation.is_none();
            compare_with_published(work, entry, &data, given_split);
        }
        announce(work, &data)?;
        work.progress(2, Some(2), "steps", "done");
        Ok(())
    }
}

/// Warns if the sizes of a registered data set differ from the published ones.
fn compare_with_published(work: &mut Work, entry: &KnownDataSet, data: &SplitData, given_split: bool) {
    let (meta, expected) = (data.meta(), entry.expected);
    let mut pairs = vec![
        ("features", meta.features_before, expected.features),
        ("labels", meta.labels_before, expected.labels),
    ];
    if given_split {
        pairs.push(("training rows", data.rows(PartName::Train) as u64, expected.rows));
        pairs.push(("test rows", data.rows(PartName::Test) as u64, expected.test_rows));
    }
    for (noun, count, published) in pairs.into_iter().filter(|(_, count, published)| count != published) {
        work.warn(format!("`{}` has {count} {noun}, but the published number is {published}", entry.name));
    }
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::path::{Path, PathBuf};

    use serde_json::json;

    use super::super::stage_test::StageTest;
    use super::*;
    use pipe_core::kind::Kind;
    use pipe_core::stage::KindOf;
    use pipe_ml::data::csr::Features;
    use pipe_ml::data::locate::Locator;

    fn checked(yaml: &str) -> (Load, Vec<Issue>) {
        let load: Load = serde_yaml::from_str(yaml).unwrap();
        let issues = KindOf::<Load>::new().check(&serde_yaml::from_str(yaml).unwrap()).unwrap().issues;
        (load, issues)
    }

    fn issues(yaml: &str) -> Vec<String> {
        checked(yaml).1.into_iter().map(|issue| issue.field).collect()
    }

    fn slots(yaml: &str) -> Vec<String> {
        checked(yaml).0.inputs().into_iter().map(|input| input.slot).collect()
    }

    #[test]
    fn a_known_data_set_declares_its_files() {
        assert_eq!(slots("dataset: bibtex"), ["train", "test", "label_xml"]);
        let from = SourceDecl::DataFile { dataset: "bibtex".into(), file: "bibtex-train.arff".into() };
        assert_eq!(checked("dataset: bibtex").0.inputs()[0].source, from);
        assert_eq!(issues("dataset: bibtex"), [""; 0]);
    }

    #[test]
    fn test_files_are_not_fetched_for_a_split_that_ignores_them() {
        assert_eq!(slots("{dataset: amazoncat-13k, split: {first: 50000, holdout: 0.2}}"), ["train"]);
        assert_eq!(slots("{dataset: amazoncat-13k, split: {holdout: 0.2, pool: true}}"), ["train", "test"]);
        assert_eq!(slots("{files: {train: a, test: b}, split: {folds: 5}}"), ["train"]);
    }

    #[test]
    fn a_value_that_cannot_be_used_is_an_issue_of_its_field() {
        assert_eq!(issues("{}"), [""]);
        assert_eq!(issues("dataset: bibtxe"), ["dataset"]);
        assert_eq!(issues("dataset: citeulike-t"), ["split"]);
        assert_eq!(issues("{files: {test: b}}"), ["files", "files.test"]);
        assert_eq!(issues("{dataset: bibtex, split: {holdout: 2}}"), ["split.holdout"]);
        assert_eq!(issues("{dataset: bibtex, validation: {fraction: 0}}"), ["validation.fraction"]);
        assert!(serde_yaml::from_str::<Load>("{dataset: bibtex, splits: {}}").is_err());
    }

    #[test]
    fn only_files_that_may_be_arff_have_the_version_with_nominal_values() {
        let version = |yaml| checked(yaml).0.version();
        assert_eq!(version("{files: {train: a, test: b}}"), 5);
        assert_eq!(version("{files: {rows: a}, read: {format: arff}}"), 5);
        assert_eq!(version("{files: {rows: a}, read: {format: libsvm}}"), 4);
        assert_eq!(version("{files: {rows: a, labels: b}}"), 4);
        assert_eq!(version("{dataset: bibtex}"), 4);
    }

    #[test]
    fn paths_of_files_are_not_part_of_the_parameters() {
        let params = |yaml| serde_json::to_string(&checked(yaml).0).unwrap();
        assert_eq!(params("{files: {train: a.svm, test: b.svm}}"), params("{files: {train: x/c, test: d}}"));
    }

    const TRAIN: &str = "0,2 0:1 3:0.5\n1 1:2\n 0:1\n0 3:1 4:1\n";
    const TEST: &str = "2 1:2\n0 4:0.25\n";

    fn write(directory: &Path, name: &str, text: &str) -> PathBuf {
        let path = directory.join(name);
        fs::write(&path, text).unwrap();
        path
    }

    fn small(body: serde_json::Value) -> StageTest {
        let temp = tempfile::tempdir().unwrap();
        let files =
            [("train", TRAIN), ("test", TEST)].map(|(slot, text)| (slot, write(temp.path(), slot, text)));
        StageTest::of::<Load>(body, files)
    }

    fn sparse(data: &SplitData, part: PartName) -> pipe_ml::data::csr::Csr {
        match data.features(part).unwrap() {
            Features::Sparse(features) => features,
            Features::Dense(_) => panic!("dense"),
        }
    }

    #[test]
    fn rows_keep_their_values_in_their_parts() {
        let test = small(json!({"files": {"train": "t", "test": "u"}}));
        let data = test.dataset();
        assert_eq!(PartName::ALL.map(|part| data.rows(part)), [4, 0, 2]);
        let (train, labels) = (sparse(&data, PartName::Train), data.labels(PartName::Train).unwrap());
        assert_eq!(
            (train.row(0), train.row_values(0), labels.row(0)),
            (&[0, 3][..], &[1.0, 0.5][..], &[0, 2][..])
        );
        assert_eq!((labels.row(2), sparse(&data, PartName::Test).cols), (&[][..], 5));
        assert!(data.labels(PartName::Validation).unwrap_err().to_string().contains("no validation part"));
    }

    #[test]
    fn sizes_and_duplicates_are_reported() {
        let test = small(json!({"files": {"train": "t", "test": "u"}}));
        assert_eq!(test.metric("train_rows"), Some(4.0));
        assert_eq!(test.metric("labels_per_row"), Some(1.0));
        assert_eq!(test.metric("test_rows_in_train"), Some(1.0));
        assert_eq!(
            test.warnings(),
            ["1 of 2 test rows have the features of a training row, 0 of them its labels too"]
        );
    }

    #[test]
    fn filters_and_weights_are_fitted_on_training_rows() {
        let test = small(json!({
            "files": {"train": "t", "test": "u"},
            "filter": {"min_label_count": 2, "max_features": 2},
            "weight": {"tf_idf": true},
        }));
        let data = test.dataset();
        // Label 0 occurs twice in the training rows, and so do features 0 and 3. Feature 4 occurs twice only with the test rows.
        assert_eq!((data.meta().labels_before, data.meta().labels, data.meta().features), (3, 1, 2));
        assert_eq!(data.labels(PartName::Test).unwrap().row(1), [0]);
        let train = sparse(&data, PartName::Train);
        let idf = ((5.0f64 / 3.0).ln() + 1.0) as f32;
        assert_eq!((train.row(0), train.row_values(0)), (&[0, 1][..], &[idf, 0.5 * idf][..]));
        assert_eq!(sparse(&data, PartName::Test).entries(), 0);
    }

    fn label_names(text: &str, filter: serde_json::Value) -> Option<Vec<String>> {
        let temp = tempfile::tempdir().unwrap();
        let file = write(temp.path(), "a", text);
        let test = StageTest::of::<Load>(json!({"files": {"rows": "a"}, "filter": filter}), [("rows", file)]);
        test.dataset().label_names().unwrap()
    }

    #[test]
    fn labels_without_names_are_called_by_their_numbers_in_the_file() {
        let names = |names: &[&str]| Some(names.iter().map(|&name| name.to_owned()).collect::<Vec<_>>());
        let (from_0, from_1) = ("0 0:1\n2 0:1\n2 1:1\n3 1:1\n3 1:1\n", "1 1:1\n3 1:1\n3 2:1\n");
        assert_eq!(label_names(from_0, json!({})), None, "the numbers of the file are kept");
        assert_eq!(label_names(from_0, json!({"min_label_count": 0})), None);
        assert_eq!(label_names(from_0, json!({"min_label_count": 2})), names(&["2", "3"]));
        assert_eq!(label_names(from_0, json!({"labels": ["3"]})), names(&["3"]));
        assert_eq!(label_names(from_1, json!({})), names(&["1", "2", "3"]));
        assert_eq!(label_names(from_1, json!({"min_label_count": 2})), names(&["3"]));
        assert_eq!(label_names(from_1, json!({"labels": ["1"]})), names(&["1"]));
    }

    #[test]
    fn taking_validation_rows_changes_neither_labels_nor_features() {
        let sizes = |validation: serde_json::Value| {
            let test = small(json!({
                "files": {"train": "t", "test": "u"},
                "filter": {"min_label_count": 2, "max_features": 2},
                "validation": validation,
            }));
            (test.dataset().meta().labels, test.dataset().meta().features)
        };
        for seed in 0..8 {
            assert_eq!(sizes(json!({"fraction": 0.25, "seed": seed})), sizes(json!(null)));
        }
    }

    #[test]
    fn the_error_for_raw_text_names_the_stage_vectorise() {
        let temp = tempfile::tempdir().unwrap();
        let file = write(temp.path(), "a.jsonl", "{\"text\": \"a b\", \"labels\": [\"x\"]}\n");
        let error = StageTest::failure::<Load>(json!({"files": {"rows": "a"}}), [("rows", file)]);
        assert!(error.contains("`vectorise`"), "{error}");
    }

    #[test]
    fn one_file_without_a_split_has_no_test_rows_and_a_warning_suggests_a_split() {
        let temp = tempfile::tempdir().unwrap();
        let file = write(temp.path(), "a", TRAIN);
        let test = StageTest::of::<Load>(json!({"files": {"rows": "a"}}), [("rows", file)]);
        assert!(test.warnings().iter().any(|warning| warning.contains("holdout")), "{:?}", test.warnings());
        assert!(!test.output("dataset").join("test").exists());
    }

    /// Loads a data set from the data directory. Prints a message and returns `None` if it is not there.
    fn real(name: &str, body: serde_json::Value) -> Option<StageTest> {
        let fallback = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
        let directory = std::env::var_os("PIPE_DATA_DIR").map_or_else(fallback, PathBuf::from);
        let locator = Locator::new(directory, true);
        let load: Load = serde_json::from_value(body.clone()).unwrap();
        let mut files = Vec::new();
        for input in load.inputs() {
            let SourceDecl::DataFile { dataset, file } = &input.source else { panic!("{input:?}") };
            let Some(path) = locator.find(dataset, file).unwrap() else {
                println!("skipped: {name} is not in the data directory (set PIPE_DATA_DIR)");
                return None;
            };
            let (digest, bytes) = pipe_ml::data::fetch::digest_file(&path).unwrap();
            locator.check(dataset, &path, digest, bytes).unwrap();
            files.push((input.slot, path));
        }
        Some(StageTest::of::<Load>(body, files))
    }

    #[test]
    fn real_data_sets_have_their_published_sizes() {
        for (name, train, test, features, labels) in [
            ("bibtex", 4880, 2515, 1836, 159),
            ("delicious", 12_920, 3185, 500, 983),
            ("medical", 333, 645, 1449, 45),
        ] {
            let Some(loaded) = real(name, json!({"dataset": name})) else { continue };
            let data = loaded.dataset();
            assert_eq!(PartName::ALL.map(|part| data.rows(part)), [train, 0, test], "{name}");
            assert_eq!((data.meta().features, data.meta().labels), (features, labels), "{name}");
            assert!(loaded.warnings().iter().all(|warning| !warning.contains("published")), "{name}");
        }
    }

    #[test]
    fn citeulike_has_its_published_sizes() {
        let body = json!({"dataset": "citeulike-t", "split": {"holdout": 0.2}});
        let Some(test) = real("citeulike-t", body) else { return };
        let meta = test.dataset().meta().clone();
        assert_eq!(meta.rows.values().sum::<u64>(), 25_975);
        assert_eq!((meta.features, meta.labels), (20_000, 52_946));
    }
}
