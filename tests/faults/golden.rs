//! What undisturbed runs give: the standard that every trial is held to.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use anyhow::{Context, Result, ensure};

use crate::project::{FIRST_VERSION, Files, Pipeline};
use crate::trial::Place;

/// The programs under test, and the results of undisturbed runs, each computed when it is first needed.
pub struct Golden {
    /// The program `pipe`.
    pub pipe: PathBuf,
    /// The directory for the trials.
    pub directory: PathBuf,
    known: Mutex<BTreeMap<Pipeline, Arc<Known>>>,
    calls: Mutex<BTreeMap<Pipeline, Vec<u32>>>,
}

/// The results of the undisturbed runs of one pipeline.
pub struct Known {
    /// The files placed, by version of the data.
    pub results: Vec<Files>,
    /// All instances.
    pub instances: BTreeSet<String>,
    /// The instances that need not run again after an edit.
    pub unaffected: BTreeSet<String>,
    /// The duration of a run without any results, in seconds.
    pub seconds: f64,
}

impl Golden {
    /// Takes the programs under test and the directory for the trials.
    pub fn new(pipe: &Path, directory: &Path) -> Result<Self> {
        let pipe =
            pipe.canonicalize().with_context(|| format!("{} is missing; build it first", pipe.display()))?;
        Ok(Self {
            pipe,
            directory: directory.canonicalize()?,
            known: Mutex::default(),
            calls: Mutex::default(),
        })
    }

    /// Returns whether the program that trains networks is there.
    pub fn has_worker(&self) -> bool {
        self.pipe.with_file_name("pipe-worker").is_file()
    }

    /// Returns what undisturbed runs of a pipeline give.
    pub fn of(&self, pipeline: Pipeline) -> Result<Arc<Known>> {
        let mut known = self.known.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(known) = known.get(&pipeline) {
            return Ok(known.clone());
        }
        let measured = Arc::new(self.measure(pipeline)?);
        known.insert(pipeline, measured.clone());
        Ok(measured)
    }

    /// Returns how many system calls of each group the busiest thread of an undisturbed run makes.
    pub fn calls(&self, pipeline: Pipeline) -> Result<Vec<u32>> {
        let mut calls = self.calls.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
        if let Some(calls) = calls.get(&pipeline) {
            return Ok(calls.clone());
        }
        let counted = crate::classes::count_calls(self, pipeline)?;
        calls.insert(pipeline, counted.clone());
        Ok(counted)
    }

    fn measure(&self, pipeline: Pipeline) -> Result<Known> {
        let place = Place::new(&self.directory)?;
        let mut results = Vec::new();
        let mut instances = BTreeSet::new();
        let mut unaffected = BTreeSet::new();
        let mut seconds = 0.0;
        for version in [FIRST_VERSION, 1, 2] {
            pipeline.write(&place.project(), "pipeline.yaml", &place.hold(), version, 0.0)?;
            let started = std::time::Instant::now();
            let ended = place.pipe(self, &["run", "pipeline.yaml", "--json"])?.finish()?;
            ensure!(ended.code == Some(0), "an undisturbed run failed: {ended:?}");
            if version == FIRST_VERSION {
                seconds = started.elapsed().as_secs_f64();
                instances = ended.instances("done");
            } else {
                unaffected = ended.instances("hit");
            }
            // A run in a directory that never saw another version gives the reference.
            let clean = Place::new(&self.directory)?;
            pipeline.write(&clean.project(), "pipeline.yaml", &clean.hold(), version, 0.0)?;
            let ended = clean.pipe(self, &["run", "pipeline.yaml", "--json"])?.finish()?;
            ensure!(ended.code == Some(0), "an undisturbed run failed: {ended:?}");
            let files = pipeline.results(&clean.project())?;
            ensure!(
                files == pipeline.results(&place.project())?,
                "an edit gives other results than a clean run"
            );
            ensure!(!results.contains(&files), "two versions of the data give the same results");
            results.push(files);
        }
        ensure!(
            !unaffected.is_empty() || pipeline == Pipeline::Training,
            "every instance depends on the edit"
        );
        Ok(Known { results, instances, unaffected, seconds })
    }
}
