//! `fuse`: joins the scores of several models, and the rarity of each label, into one score.

use std::path::Path;

use anyhow::{Context, Result, ensure};
use rayon::prelude::*;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use pipe_core::default_value::is_default;
use pipe_core::issue::Issue;
use pipe_core::kind::{InputDecl, OutputDecl, Program};
use pipe_core::reference::StageRef;
use pipe_core::slot::{Out, Slot};
use pipe_core::stage::{RunStage, StageKind};
use pipe_core::work::Work;
use pipe_ml::composite::{Composite, LABEL_RIDGE, mark, save_label_names, take_part};
use pipe_ml::data::csr::Csr;
use pipe_ml::data::dataset_part::FittedRows;
use pipe_ml::data::split_data::SplitData;
use pipe_ml::fusion::{Fusion, FusionTerm, LogFloors, PairOptions, PairSource, candidates};
use pipe_ml::label_ridge::{FittedLabelRidge, LabelRidge, MOST_LABELS, Probabilities, probabilities};
use pipe_ml::score::table::{ScoreTable, ScoreTableSpec, ScoreWriter};
use pipe_ml::score::{ScoreOrigin, ScoreScale};

/// The parameters of `fuse`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Fuse {
    pub data: StageRef,
    /// `fit` stages on the same data.
    pub models: Vec<StageRef>,
    /// The number that is added to the response of a model before the logarithm.
    #[serde(default = "default_response_floor")]
    pub response_floor: f64,
    /// The number that is added to a share of neighbours before the logarithm.
    #[serde(default = "default_share_floor")]
    pub share_floor: f64,
    /// The number of pairs of a row and a label that are drawn to fit the weights, in addition to all true pairs. By default all pairs take
    /// part, and if there are more than 2 million, a sample that varies little with the seed.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pairs: Option<usize>,
    /// The pairs to fit the weights on: every row with every label, or with its candidates, the labels that a model has
    /// kept for it.
    #[serde(default, skip_serializing_if = "is_default")]
    pub pairs_from: PairSource,
    /// Whether the sum also has the products of two signals, squares included.
    #[serde(default, skip_serializing_if = "is_default")]
    pub products: bool,
    /// The smallest number of training rows of a label whose pairs the weights are fitted on. By default, the pairs of all
    /// labels take part.
    #[serde(default, skip_serializing_if = "is_default")]
    pub min_label_rows: Option<u64>,
    /// The strength of the penalty of a second stage: a ridge regression of each label on the probabilities that the fused models give to all
    /// labels. Its score is fused with those of the models. By default there is no second stage.
    #[serde(default, skip_serializing_if = "is_default")]
    pub label_ridge: Option<f64>,
    /// The seed of the pairs.
    #[serde(default)]
    pub seed: u64,
}

fn default_response_floor() -> f64 {
    0.03
}

fn default_share_floor() -> f64 {
    0.005
}

impl Fuse {
    /// The data set with the rows that the models were fitted on.
    pub const DATA: Slot<SplitData> = Slot::new("data");
    /// The models to fuse.
    pub const MODELS: Slot<Composite> = Slot::new("models");
    /// The scores of the training rows, in the order of the models.
    pub const MODEL_SCORES: Slot<ScoreTable> = Slot::new("scores").written_in("models");
    /// The fused model, which contains all models.
    pub const MODEL: Out<Composite> = Out::new("model", "model");
    /// The fused scores of the training rows.
    pub const SCORES: Out<ScoreTable> = Out::new("scores", "scores");
    /// The weights.
    pub const FUSION: Out<Fusion> = Out::new("fusion", "fusion.json");
}

impl StageKind for Fuse {
    const NAME: &'static str = "fuse";
    const VERSION: u32 = 1;
    const SUMMARY: &'static str = "Joins the scores of models, neighbours and rarity into one";
    const PROGRAM: Program = Program::Pipe;

    fn inputs(&self) -> Vec<InputDecl> {
        vec![
            Self::DATA.one(&self.data),
            Self::MODELS.many(&self.models),
            Self::MODEL_SCORES.many(&self.models),
        ]
    }

    fn outputs(&self) -> Vec<OutputDecl> {
        vec![Self::MODEL.decl(), Self::SCORES.decl(), Self::FUSION.decl()]
    }

    fn issues(&self) -> Vec<Issue> {
        let mut issues = Vec::new();
        let floors = [("response_floor", self.response_floor), ("share_floor", self.share_floor)];
        for (field, _) in floors.into_iter().filter(|(_, floor)| !(*floor > 0.0 && floor.is_finite())) {
            issues.push(Issue::new(field, "must be above 0"));
        }
        if self.pairs == Some(0) {
            issues.push(Issue::new("pairs", "must be at least 1"));
        }
        if self.min_label_rows == Some(0) {
            issues.push(Issue::new("min_label_rows", "must be at least 1"));
        }
        if self.label_ridge.is_some_and(|ridge| !(ridge > 0.0 && ridge.is_finite())) {
            issues.push(Issue::new("label_ridge", "must be above 0"));
        }
        issues
    }

    fn metrics(&self) -> Option<Vec<&'static str>> {
        Some(vec!["weight_*"])
    }
}

impl RunStage for Fuse {
    type Stage = Self;

    fn run(stage: &Self, work: &mut Work) -> Result<()> {
        let data = work.open(Self::DATA)?;
        let (models, scores) = (work.open_all(Self::MODELS)?, work.open_all(Self::MODEL_SCORES)?);
        let fitted_on = models.first().map_or(FittedRows::Train, |(_, card)| card.fitted_on);
        ensure!(
            models.iter().all(|(_, card)| card.fitted_on == fitted_on),
            "some of the models were fitted on the training rows and some on all rows: set the same `part` in all of their \
             stages"
        );
        let labels = fitted_on.labels(&data)?;
        ensure!(
            models.len() == scores.len(),
            "there are {} models and {} tables of scores: every model needs its own",
            models.len(),
            scores.len()
        );
        let mut parts = Vec::new();
        let mut tables = Vec::new();
        for (input, ((_, card), (_, table))) in
            work.inputs(&Self::MODELS).iter().zip(models.into_iter().zip(scores))
        {
            check_same_origin(&card, &table, &data, &labels)?;
            ensure!(
                card.fusion.is_none() && card.cuts.is_none(),
                "only models of `fit` can be fused, and one of these is already fused or has cuts"
            );
            parts.push((input.path.clone(), card));
            tables.push(table);
        }
        let floors = LogFloors { response: stage.response_floor, share: stage.share_floor };
        let configs = parts.iter().map(|(_, card)| &card.parts[0].model);
        let mut terms: Vec<FusionTerm> =
            configs.map(|config| FusionTerm::new(config.name(), config.scale(), floors)).collect();
        let options = PairOptions {
            pairs: stage.pairs,
            seed: stage.seed,
            source: stage.pairs_from,
            products: stage.products,
            min_label_rows: stage.min_label_rows,
        };
        let output = work.output_path(Self::MODEL)?.to_owned();
        let mut fusion = Fusion::fit(terms.clone(), &tables, &labels, options)?;
        let (mut first_fusion, scratch) = (None, tempfile::tempdir_in(&work.job().scratch)?);
        if let Some(ridge) = stage.label_ridge {
            let (label_ridge, table) = fit_label_ridge(ridge, &fusion, &tables, &labels, scratch.path())?;
            label_ridge.save(&output.join(LABEL_RIDGE))?;
            tables.push(table);
            terms.push(FusionTerm::new(LABEL_RIDGE, ScoreScale::Response, floors));
            let both = Fusion::fit(terms, &tables, &labels, options)?;
            first_fusion = Some(std::mem::replace(&mut fusion, both));
        }
        for (term, number) in fusion.terms.iter().zip(1..) {
            work.metric(&format!("weight_{number}_{}", term.model), term.weight);
        }
        work.metric("weight_idf", fusion.idf_weight);

        let taken = parts.iter().enumerate();
        let taken = taken.map(|(number, (from, card))| take_part(from, &card.parts[0], &output, number));
        let taken = taken.collect::<Result<Vec<_>, _>>()?;
        let marks: Vec<&str> = parts.iter().map(|(_, card)| card.mark.as_str()).collect();
        let mark = mark(&(&fusion, marks));
        let mut model = Composite::new(mark.clone(), data.meta().features as usize, labels.cols, taken);
        write_scores(work, &fusion, &tables, mark)?;
        work.save(Self::FUSION, &fusion)?;
        model.fusion = Some(fusion);
        model.first_fusion = first_fusion;
        model.fitted_on = fitted_on;
        save_label_names(&output, data.label_names()?.as_deref())?;
        model.save(&output)?;
        Ok(())
    }
}

/// Checks that a model and its scores come from one stage, and were made on this data set.
pub(crate) fn check_same_origin(
    card: &Composite,
    table: &ScoreTable,
    data: &SplitData,
    labels: &Csr,
) -> Result<()> {
    ensure!(
        card.mark == table.card().mark,
        "the scores are of another model: both must come from the same stage"
    );
    let (rows, of_data) = (table.card().rows, labels.rows());
    ensure!(
        rows == of_data && table.card().labels == labels.cols && card.labels == labels.cols,
        "the scores are of {rows} rows and {} labels, the data has {of_data} rows to fit on and {}: the model must be \
         fitted on the same data",
        table.card().labels,
        labels.cols
    );
    let features = data.meta().features as usize;
    ensure!(
        card.features == features,
        "the model knows {} features, the data has {features}: it must be fitted on the same data",
        card.features
    );
    Ok(())
}

/// Fits a ridge regression on the probabilities of a fusion. Returns it with the table of its leave-one-out scores, which is written into a
/// directory.
fn fit_label_ridge(
    ridge: f64,
    fusion: &Fusion,
    tables: &[ScoreTable],
    labels: &Csr,
    directory: &Path,
) -> Result<(LabelRidge, ScoreTable)> {
    ensure!(
        labels.cols <= MOST_LABELS,
        "`label_ridge` is for at most {MOST_LABELS} labels, and there are {}: its time grows with their third power. Leave it out, or \
         extend `builtin/long-tail` instead of `builtin/recipe`",
        labels.cols
    );
    let of_row = |row: usize| {
        let (labels, scores) = fused_row(fusion, tables, row);
        probabilities(labels.into_iter().zip(scores))
    };
    let rows: Vec<Probabilities> = (0..labels.rows()).into_par_iter().map(of_row).collect();
    let fitted = FittedLabelRidge::fit(&rows, labels, ridge)
        .context("the equations of `label_ridge` cannot be solved: give it a larger value")?;
    let spec = ScoreTableSpec {
        mark: String::new(),
        labels: labels.cols,
        scale: ScoreScale::Response,
        made: ScoreOrigin::LeaveOneOut {},
        keep: keep_of(tables),
    };
    let mut writer = ScoreWriter::create(directory, spec)?;
    for first in (0..labels.rows()).step_by(BLOCK_ROWS) {
        let block = first..labels.rows().min(first + BLOCK_ROWS);
        let scores = |row: usize| {
            let mut scores = vec![0.0; labels.cols];
            fitted.score_left_out(row, &rows[row], labels.row(row), &mut scores);
            let found = candidates(tables, row);
            let kept: Vec<f32> = found.iter().map(|&label| scores[label as usize]).collect();
            (found, kept)
        };
        for (found, scores) in block.into_par_iter().map(scores).collect::<Vec<_>>() {
            writer.push_kept(&found, &scores)?;
        }
    }
    Ok((fitted.model, writer.finish()?))
}

/// Returns how many labels per row may be candidates of one of the tables; `None` if all are.
fn keep_of(tables: &[ScoreTable]) -> Option<usize> {
    let sparse = tables.iter().any(ScoreTable::is_sparse);
    // The union of the tables' candidates may be as large as all of them together.
    sparse.then(|| tables.iter().filter_map(|table| table.card().keep).sum())
}

/// The number of rows that are fused at a time.
const BLOCK_ROWS: usize = 256;

/// Writes the fused scores of the training rows.
fn write_scores(work: &mut Work, fusion: &Fusion, tables: &[ScoreTable], mark: String) -> Result<()> {
    let (rows, labels) = (tables[0].card().rows, fusion.labels());
    let keep = keep_of(tables);
    let spec = ScoreTableSpec { mark, labels, scale: ScoreScale::LogOdds, made: ScoreOrigin::Fused {}, keep };
    let mut writer = ScoreWriter::create(work.output_path(Fuse::SCORES)?, spec)?;
    for first in (0..rows).step_by(BLOCK_ROWS) {
        let block: Vec<usize> = (first..rows.min(first + BLOCK_ROWS)).collect();
        let fused: Vec<(Vec<u32>, Vec<f32>)> =
            block.par_iter().map(|&row| fused_row(fusion, tables, row)).collect();
        for (labels, scores) in fused {
            writer.push_kept(&labels, &scores)?;
        }
        for table in tables {
            table.release(first..first + block.len());
        }
        work.progress(block[block.len() - 1] as u64 + 1, Some(rows as u64), "rows", "fusing");
    }
    writer.finish()?;
    Ok(())
}

/// Returns the candidate labels of a row, and their fused scores.
fn fused_row(fusion: &Fusion, tables: &[ScoreTable], row: usize) -> (Vec<u32>, Vec<f32>) {
    let labels = candidates(tables, row);
    let score = |&label: &u32| fusion.score(label, tables.iter().map(|table| table.score(row, label)));
    let scores = labels.iter().map(score).collect();
    (labels, scores)
}

#[cfg(test)]
mod tests {
    use std::path::PathBuf;

    use serde_json::json;

    use super::super::score_fixture::ScoreFixture;
    use super::super::stage_test::StageTest;
    use super::*;
    use pipe_core::artifact::Artifact;
    use pipe_ml::config::model::ModelConfig;
    use pipe_ml::config::signal::Weighting;

    const NEIGHBOURS: ModelConfig =
        ModelConfig::Neighbours { neighbours: 50, weighting: Weighting::CosineSquared, searched_rows: None };

    fn inputs(scored: &ScoreFixture, names: &[&str]) -> Vec<(&'static str, PathBuf)> {
        let mut inputs = vec![("data", scored.data())];
        for name in names {
            inputs.extend([("models", scored.model(name)), ("scores", scored.scores(name))]);
        }
        inputs
    }

    fn body() -> serde_json::Value {
        json!({"data": "data", "models": ["a", "b"], "pairs": 2000})
    }

    fn fusion(test: &StageTest) -> Fusion {
        Fusion::open(&test.output("fusion")).unwrap()
    }

    #[test]
    fn the_better_model_gets_the_larger_weight_and_both_parts_are_kept() {
        let scored = ScoreFixture::new();
        scored.add("sharp", ScoreFixture::ridge(), 0.5, None);
        scored.add("dull", NEIGHBOURS, 0.95, None);
        let test = StageTest::of::<Fuse>(body(), inputs(&scored, &["sharp", "dull"]));
        let fusion = fusion(&test);
        assert!(fusion.terms[0].weight > fusion.terms[1].weight.abs(), "{fusion:?}");
        assert_eq!((fusion.terms[0].floor, fusion.terms[1].floor), (0.03, 0.005));
        let model = Composite::load(&test.output("model")).unwrap();
        assert_eq!((model.parts.len(), model.fusion.as_ref()), (2, Some(&fusion)));
        for (part, name) in model.parts.iter().zip(["sharp", "dull"]) {
            let file = test.output("model").join(&part.directory).join("weights");
            assert_eq!(std::fs::read_to_string(file).unwrap(), name);
        }
        let table = ScoreTable::open(&test.output("scores")).unwrap();
        assert_eq!((table.card().rows, &table.card().mark, table.is_sparse()), (200, &model.mark, false));
        let parts =
            [scored.scores("sharp"), scored.scores("dull")].map(|path| ScoreTable::open(&path).unwrap());
        let expected = fusion.score(3, parts.iter().map(|part| part.score(17, 3)));
        assert_eq!(table.score(17, 3), expected);
    }

    #[test]
    fn the_candidates_of_all_parts_are_candidates_of_the_fused_model() {
        let scored = ScoreFixture::new();
        scored.add("a", ScoreFixture::ridge(), 0.6, Some(2));
        scored.add("b", ScoreFixture::ridge(), 0.6, Some(3));
        let test = StageTest::of::<Fuse>(body(), inputs(&scored, &["a", "b"]));
        let table = ScoreTable::open(&test.output("scores")).unwrap();
        let parts = ["a", "b"].map(|name| ScoreTable::open(&scored.scores(name)).unwrap());
        for row in 0..200 {
            let mut union: Vec<u32> =
                parts.iter().flat_map(|part| part.kept(row).unwrap()).copied().collect();
            union.sort_unstable();
            union.dedup();
            assert_eq!(table.kept(row).unwrap(), union);
        }
    }

    #[test]
    fn weights_can_be_fitted_on_candidates_and_with_products() {
        let scored = ScoreFixture::new();
        scored.add("a", ScoreFixture::ridge(), 0.6, Some(2));
        scored.add("b", ScoreFixture::ridge(), 0.6, Some(3));
        let mut body = body();
        body["pairs_from"] = "candidates".into();
        body["products"] = true.into();
        let test = StageTest::of::<Fuse>(body, inputs(&scored, &["a", "b"]));
        assert!(fusion(&test).products.len() == 6);
        let model = Composite::load(&test.output("model")).unwrap();
        assert_eq!(model.fusion, Some(fusion(&test)));
    }

    #[test]
    fn the_seed_matters_only_if_pairs_are_drawn() {
        let scored = ScoreFixture::new();
        scored.add("a", ScoreFixture::ridge(), 0.6, None);
        let with = |pairs: Option<u64>, seed: u64| {
            let body = json!({"data": "data", "models": ["a"], "pairs": pairs, "seed": seed});
            fusion(&StageTest::of::<Fuse>(body, inputs(&scored, &["a"])))
        };
        assert_eq!(with(None, 1), with(None, 2));
        assert_ne!(with(Some(500), 1), with(Some(500), 2));
    }

    #[test]
    fn options_that_are_not_given_are_not_part_of_the_key() {
        let stage: Fuse = serde_json::from_value(json!({"data": "data", "models": ["a"]})).unwrap();
        let written = serde_json::to_string(&stage).unwrap();
        for option in ["\"pairs\"", "products", "pairs_from", "label_ridge"] {
            assert!(!written.contains(option), "{written}");
        }
    }

    #[test]
    fn a_label_ridge_is_a_further_signal() {
        for keep in [None, Some(4)] {
            let scored = ScoreFixture::new();
            scored.add("a", ScoreFixture::ridge(), 0.6, keep);
            scored.add("b", ScoreFixture::ridge(), 0.6, keep);
            let mut body = body();
            body["label_ridge"] = 2.0.into();
            let test = StageTest::of::<Fuse>(body, inputs(&scored, &["a", "b"]));
            let (fusion, model) = (fusion(&test), Composite::load(&test.output("model")).unwrap());
            assert_eq!((fusion.terms.len(), fusion.terms[2].model.as_str()), (3, "label_ridge"));
            assert_eq!((model.parts.len(), model.first_fusion.as_ref().unwrap().terms.len()), (2, 2));
            let ridge = LabelRidge::load(&test.output("model").join(LABEL_RIDGE), fusion.labels()).unwrap();
            let row = probabilities((0..12).map(|label| (label, 0.5)));
            let mut scores = [0.0; 12];
            ridge.score(&row, &mut scores);
            assert!(scores.iter().all(|score| score.is_finite()) && scores[0] != scores[1]);
            let table = ScoreTable::open(&test.output("scores")).unwrap();
            assert_eq!(
                (table.is_sparse(), table.card().mark.as_str()),
                (keep.is_some(), model.mark.as_str())
            );
        }
        let stage: Fuse =
            serde_json::from_value(json!({"data": "d", "models": ["a"], "label_ridge": 0.0})).unwrap();
        assert_eq!(stage.issues()[0].field, "label_ridge");
    }

    #[test]
    fn a_single_model_is_calibrated() {
        let scored = ScoreFixture::new();
        scored.add("a", ScoreFixture::ridge(), 0.6, None);
        let test = StageTest::of::<Fuse>(body(), inputs(&scored, &["a"]));
        assert_eq!(fusion(&test).terms.len(), 1);
        assert_eq!(Composite::load(&test.output("model")).unwrap().scale(), ScoreScale::LogOdds);
    }

    #[test]
    fn models_that_were_fitted_on_different_rows_are_refused() {
        let scored = ScoreFixture::new();
        scored.add("a", ScoreFixture::ridge(), 0.6, None);
        scored.add("b", ScoreFixture::ridge(), 0.6, None);
        let mut card = Composite::load(&scored.model("b")).unwrap();
        card.fitted_on = FittedRows::All;
        card.save(&scored.model("b")).unwrap();
        let error = StageTest::failure::<Fuse>(body(), inputs(&scored, &["a", "b"]));
        assert!(error.contains("set the same `part`"), "{error}");
        // The scores of "b" are those of the training rows, and all rows are more.
        let error = StageTest::failure::<Fuse>(body(), inputs(&scored, &["b"]));
        assert!(error.contains("the scores are of 200 rows"), "{error}");
    }

    #[test]
    fn models_that_are_already_fused_and_scores_of_another_model_are_refused() {
        let scored = ScoreFixture::new();
        scored.add("a", ScoreFixture::ridge(), 0.6, None);
        scored.add("b", ScoreFixture::ridge(), 0.6, None);
        let mixed = [("data", scored.data()), ("models", scored.model("a")), ("scores", scored.scores("b"))];
        let error = StageTest::failure::<Fuse>(body(), mixed);
        assert!(error.contains("of another model"), "{error}");
        let fused = StageTest::of::<Fuse>(body(), inputs(&scored, &["a"]));
        let again =
            [("data", scored.data()), ("models", fused.output("model")), ("scores", fused.output("scores"))];
        let error = StageTest::failure::<Fuse>(body(), again);
        assert!(error.contains("already fused or has cuts"), "{error}");
    }
}
