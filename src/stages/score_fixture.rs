//! Made-up models and scores for tests of the stages that read them.

use std::path::{Path, PathBuf};

use serde_json::json;

use super::stage_test::StageTest;
use crate::synthetic::SyntheticStage;
use pipe_ml::composite::{Composite, ModelPart};
use pipe_ml::config::model::ModelConfig;
use pipe_ml::data::random::Random;
use pipe_ml::data::split_data::{PartName, SplitData};
use pipe_ml::score::table::{ScoreTableSpec, ScoreWriter};
use pipe_ml::score::{ScoreOrigin, ScoreScale};
use pipe_ml::signal::sparse_rows::SparseRows;

/// A data set, and models with scores of its training rows.
pub(crate) struct ScoreFixture {
    data: StageTest,
    temp: tempfile::TempDir,
}

impl ScoreFixture {
    /// Generates the data set.
    pub(crate) fn new() -> Self {
        let body = json!({
            "rows": 200, "test_rows": 20, "features": 60, "labels": 12, "labels_per_row": 2.0, "features_per_row": 8,
        });
        let none: [(&str, PathBuf); 0] = [];
        Self { data: StageTest::of::<SyntheticStage>(body, none), temp: tempfile::tempdir().unwrap() }
    }

    /// Returns the path of the data set.
    pub(crate) fn data(&self) -> PathBuf {
        self.data.output("dataset")
    }

    /// Returns the path of a model.
    pub(crate) fn model(&self, name: &str) -> PathBuf {
        self.temp.path().join(name).join("model")
    }

    /// Returns the path of the scores of a model.
    pub(crate) fn scores(&self, name: &str) -> PathBuf {
        self.temp.path().join(name).join("scores")
    }

    /// Adds a model whose scores are the true labels with noise: without noise at 0, hardly better than chance at 1.
    pub(crate) fn add(&self, name: &str, model: ModelConfig, blur: f64, keep: Option<usize>) {
        let data = SplitData::open(&self.data()).unwrap();
        let labels = data.labels(PartName::Train).unwrap();
        let mut random = Random::new(name, 1);
        let spec = ScoreTableSpec {
            mark: name.to_owned(),
            labels: labels.cols,
            scale: model.scale(),
            made: ScoreOrigin::LeaveOneOut {},
            keep,
        };
        let mut writer = ScoreWriter::create(&self.scores(name), spec).unwrap();
        let truth = SparseRows::ones((0..labels.rows()).map(|row| labels.row(row)));
        for row in 0..labels.rows() {
            let mut scores: Vec<f32> = (0..labels.cols).map(|_| (blur * random.unit()) as f32).collect();
            for &(label, _) in truth.row(row) {
                scores[label as usize] += (1.0 - blur) as f32;
            }
            if model.scale() == ScoreScale::LogOdds {
                for score in &mut scores {
                    *score = 8.0 * *score - 4.0;
                }
            }
            writer.push(&scores).unwrap();
        }
        let rest = writer.finish().unwrap().card().rest;
        let directory = self.model(name);
        let part = directory.join(Composite::part_directory(0));
        std::fs::create_dir_all(&part).unwrap();
        std::fs::write(part.join("weights"), name).unwrap();
        let own = Composite::part_directory(0);
        let part = ModelPart { directory: own, model, chosen_because: None, keep, rest };
        let features = data.meta().features as usize;
        Composite::new(name.to_owned(), features, labels.cols, vec![part]).save(&directory).unwrap();
    }

    /// Returns a ridge regression, whose scores are responses.
    pub(crate) fn ridge() -> ModelConfig {
        ModelConfig::Ridge { ridge: 1.0, constant: 0.3 }
    }
}

/// Returns the inputs of a stage that reads one model.
pub(crate) fn one(scored: &ScoreFixture, model: &Path, scores: &Path) -> [(&'static str, PathBuf); 3] {
    [("data", scored.data()), ("model", model.to_owned()), ("scores", scores.to_owned())]
}
