//! Checkpoints: everything that a killed run needs to go on to the same bits.
//!
//! ```text
//! checkpoint              the digest of what follows, then JSON: position, history, digest of the state
//! state-1234.safetensors  weights, moments, best weights after step 1234
//! ```
//!
//! The state is written first and `checkpoint` is renamed over its predecessor last, so that at
//! every moment the directory holds one whole checkpoint, or none.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use crate::engine::State;
use crate::loss::terms::LossValue;
use crate::model::tensors::{self, TensorsError};
use crate::net::weights::Weights;
use pipe_ml::history::History;

const FORMAT: u32 = 1;
const NAME: &str = "checkpoint";

/// How far a run has come. The order of the rows and the draws of dropout follow from the seed and
/// these numbers.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Position {
    /// Epochs finished.
    pub epoch: u64,
    /// Batches finished in the epoch under way.
    pub batch: u64,
    /// Steps finished in all.
    pub step: u64,
    /// Sums over the rows of the epoch under way.
    pub loss: LossValue,
    pub rows: u64,
    pub history: History,
    /// Seconds that each finished epoch took, and the one under way so far.
    pub seconds: Vec<f64>,
}

impl Position {
    pub fn start() -> Self {
        Self { seconds: vec![0.0], ..Self::default() }
    }

    /// After `epoch` epochs and before the first batch of the next.
    pub fn start_epoch(&mut self, epoch: u64) {
        self.epoch = epoch;
        self.batch = 0;
        self.loss = LossValue::default();
        self.rows = 0;
        self.seconds.push(0.0);
    }
}

/// A run in full.
pub struct Checkpoint {
    pub position: Position,
    pub state: State,
    /// Weights of the best epoch so far.
    pub best: Option<Weights>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    format: u32,
    /// What the run is: parameters and data. A checkpoint of another run is not ours.
    run: String,
    position: Position,
    optimiser_steps: u64,
    moments: bool,
    best: bool,
    state: String,
    state_digest: String,
}

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
}

impl<'a> Checkpoints<'a> {
    /// `run` is a digest of everything that must be the same for a checkpoint to be of use.
    pub fn new(directory: &'a Path, run: String) -> Self {
        Self { directory, run }
    }

    pub fn save(
        &self,
        position: &Position,
        state: &State,
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
        let record = Record {
            format: FORMAT,
            run: self.run.clone(),
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

    fn commit(&self, record: &Record) -> Result<(), CheckpointError> {
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

    /// What a finished or an unreadable checkpoint leaves behind is not worth an error.
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

    /// The checkpoint, if there is one; `fresh` gives the shape that its state must have. An error is
    /// a reason not to use it.
    pub fn load(&self, fresh: impl FnOnce() -> State) -> Result<Option<Checkpoint>, CheckpointError> {
        let path = self.directory.join(NAME);
        let unusable = |why: String| CheckpointError::Unusable(format!("{}: {why}", path.display()));
        let text = match fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(unusable(error.to_string())),
        };
        let (expected, json) = text.split_once('\n').unwrap_or_default();
        if blake3::hash(json.as_bytes()).to_hex().as_str() != expected {
            return Err(unusable("it is damaged".into()));
        }
        let record: Record = serde_json::from_str(json).map_err(|error| unusable(error.to_string()))?;
        if record.format != FORMAT || record.run != self.run {
            return Err(unusable("it belongs to another run".into()));
        }
        let file = self.directory.join(&record.state);
        if digest(&file).ok().as_ref() != Some(&record.state_digest) {
            return Err(unusable(format!("{} is missing or damaged", record.state)));
        }
        let mut state = State { steps: record.optimiser_steps, ..fresh() };
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

fn digest(path: &Path) -> io::Result<String> {
    Ok(blake3::Hasher::new().update_mmap_rayon(path)?.finalize().to_hex().to_string())
}
