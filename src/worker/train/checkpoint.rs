//! Checkpoints: everything that a killed run needs to continue and end with the same bits.
//!
//! ```text
//! checkpoint              the digest of the rest of the file, then JSON: position, history, digest of the state
//! state-1234.safetensors  weights, moments, best weights after step 1234
//! ```
//!
//! The state is written first, and `checkpoint` replaces its predecessor by a rename last, so that the directory always
//! has one complete checkpoint or none.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::EngineState;
use crate::loss::terms::LossValue;
use crate::model::tensors::{self, TensorsError};
use crate::net::weights::Weights;
use pipe_ml::history::History;

const FORMAT: u32 = 2;
const NAME: &str = "checkpoint";

/// How far a run has come. The order of the rows and the dropout draws depend on the seed and these numbers alone.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TrainingPosition {
    /// The number of finished epochs.
    pub epoch: u64,
    /// The number of finished batches of the current epoch.
    pub batch: u64,
    /// The number of finished steps of the whole run.
    pub step: u64,
    /// The sum of the loss over the rows of the current epoch.
    pub loss: LossValue,
    /// The number of these rows.
    pub rows: u64,
    pub history: History,
    /// The seconds that each finished epoch took, and the current one so far.
    pub seconds: Vec<f64>,
}

impl TrainingPosition {
    /// Returns the position before the first batch.
    pub fn start() -> Self {
        Self { seconds: vec![0.0], ..Self::default() }
    }

    /// Moves to the first batch of the next epoch, after `epoch` finished ones.
    pub fn start_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.batch = 0;
        self.loss = LossValue::default();
        self.rows = 0;
        self.seconds.push(0.0);
    }
}

/// The complete state of a run.
pub struct Checkpoint {
    pub position: TrainingPosition,
    pub state: EngineState,
    /// The weights of the best epoch so far.
    pub best: Option<Weights>,
}

/// The JSON in the file `checkpoint`.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CheckpointRecord {
    format: u32,
    /// The digest of parameters and data. A checkpoint with another digest belongs to another run.
    run: String,
    /// The device and the version of libtorch. With others, the last bits of the result may be different.
    computed_by: String,
    position: TrainingPosition,
    optimiser_steps: u64,
    /// Whether the state has moments.
    moments: bool,
    /// Whether the state has the weights of the best epoch.
    best: bool,
    /// The name of the state file.
    state: String,
    state_digest: String,
}

/// The reason why a checkpoint cannot be written or used.
#[derive(Debug, thiserror::Error)]
pub enum CheckpointError {
    #[error("cannot write the checkpoint {}: {source}", path.display())]
    Write { path: PathBuf, source: io::Error },
    #[error("cannot write a checkpoint: {0}")]
    State(#[from] TensorsError),
    #[error("{0}")]
    Unusable(String),
}

/// The directory of one run's checkpoints.
pub struct Checkpoints<'a> {
    directory: &'a Path,
    run: String,
    computed_by: String,
}

impl<'a> Checkpoints<'a> {
    /// Returns the checkpoints in a directory. `run` is a digest of parameters and data, and `computed_by` names the
    /// device and the version of libtorch: all of them must be the same for a checkpoint to be usable.
    pub fn new(directory: &'a Path, run: String, computed_by: String) -> Self {
        Self { directory, run, computed_by }
    }

    /// Writes a checkpoint and removes the previous one.
    pub fn save(
        &self,
        position: &TrainingPosition,
        state: &EngineState,
        best: Option<&Weights>,
    ) -> Result<(), CheckpointError> {
        let name = format!("state-{}.safetensors", position.step);
        let (path, draft) = (self.directory.join(&name), self.directory.join("state.draft"));
        let write = |source| CheckpointError::Write { path: path.clone(), source };
        fs::create_dir_all(self.directory).map_err(write)?;
        let mut sets = vec![("weights.", &state.weights)];
        if let Some(moments) = &state.moments {
            sets.extend([("first.", &moments.0), ("second.", &moments.1)]);
        }
        sets.extend(best.map(|best| ("best.", best)));
        tensors::save(&draft, &sets)?;
        let state_digest = digest(&draft).map_err(write)?;
        fs::rename(&draft, &path).map_err(write)?;
        let record = CheckpointRecord {
            format: FORMAT,
            run: self.run.clone(),
            computed_by: self.computed_by.clone(),
            position: position.clone(),
            optimiser_steps: state.steps,
            moments: state.moments.is_some(),
            best: best.is_some(),
            state: name.clone(),
            state_digest,
        };
        self.commit(&record)?;
        self.remove_all_but(&name);
        Ok(())
    }

    /// Replaces the file `checkpoint`, which makes the new checkpoint the current one.
    fn commit(&self, record: &CheckpointRecord) -> Result<(), CheckpointError> {
        let path = self.directory.join(NAME);
        let draft = self.directory.join("checkpoint.draft");
        let write = |source| CheckpointError::Write { path: path.clone(), source };
        let json = serde_json::to_string(record).map_err(|error| write(error.into()))?;
        let text = format!("{}\n{json}", blake3::hash(json.as_bytes()).to_hex());
        let mut file = File::create(&draft).map_err(write)?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(write)?;
        fs::rename(&draft, &path).map_err(write)?;
        File::open(self.directory).and_then(|directory| directory.sync_all()).map_err(write)
    }

    /// Removes the state files of earlier checkpoints. Files that cannot be removed are ignored.
    fn remove_all_but(&self, kept: &str) {
        let Ok(entries) = fs::read_dir(self.directory) else { return };
        for entry in entries.flatten() {
            let name = entry.file_name();
            let name = name.to_string_lossy();
            if name.starts_with("state-") && name != kept {
                let _ = fs::remove_file(entry.path());
            }
        }
    }

    /// Reads the checkpoint, if there is one. `fresh` returns a state of the expected shape. On an error, training
    /// starts from the beginning.
    pub fn load(&self, fresh: impl FnOnce() -> EngineState) -> Result<Option<Checkpoint>, CheckpointError> {
        let path = self.directory.join(NAME);
        let unusable = |why: String| CheckpointError::Unusable(format!("{}: {why}", path.display()));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(error.to_string())),
        };
        let (expected, json) = text.split_once('\n').unwrap_or_default();
        if blake3::hash(json.as_bytes()).to_hex().as_str() != expected {
            return Err(unusable("the checkpoint is damaged".into()));
        }
        let record: CheckpointRecord =
            serde_json::from_str(json).map_err(|error| unusable(error.to_string()))?;
        if record.format != FORMAT || record.run != self.run {
            return Err(unusable("the checkpoint belongs to another run".into()));
        }
        if record.computed_by != self.computed_by {
            return Err(unusable(format!(
                "the checkpoint was computed by {}, but this is {}, which may give other bits",
                record.computed_by, self.computed_by
            )));
        }
        let file = self.directory.join(&record.state);
        if digest(&file).ok().as_ref() != Some(&record.state_digest) {
            return Err(unusable(format!("{} is missing or damaged", record.state)));
        }
        let mut state = EngineState { steps: record.optimiser_steps, ..fresh() };
        let mut best = record.best.then(|| state.weights.clone());
        let mut sets = vec![("weights.", &mut state.weights)];
        if let (true, Some(moments)) = (record.moments, &mut state.moments) {
            let (first, second) = &mut **moments;
            sets.extend([("first.", first), ("second.", second)]);
        }
        sets.extend(best.as_mut().map(|best| ("best.", best)));
        tensors::load(&file, &mut sets).map_err(|error| unusable(error.to_string()))?;
        Ok(Some(Checkpoint { position: record.position, state, best }))
    }
}

/// Returns the digest of a file.
fn digest(path: &Path) -> io::Result<String> {
    Ok(blake3::Hasher::new().update_reader(File::open(path)?)?.finalize().to_hex().to_string())
}
