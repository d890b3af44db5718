//! Everything under `cache/`. The only module that opens files there. It never prints: what went
//! wrong and could be healed waits in [`Store::warnings`].
//!
//! What a reader may rely on:
//! - **One commit point.** Blobs are in place before the manifest that names them is renamed into
//!   place, and only manifests are looked up. Killing a process at any moment leaves a store that the
//!   next one uses as it is.
//! - **Nothing is believed that does not match its digest.** A blob is named by its content,
//!   manifests and pipeline states carry a checksum. What does not match is moved to the trash, and
//!   the caller sees a miss.
//! - **The disk is not waited for, except for what took long.** Results of stages that took a
//!   second or more are flushed (fsync) before they count. Those of shorter ones may be torn by a
//!   power loss; the checksums notice, and they are computed again. See [`stat_cache`] for why a
//!   remembered digest cannot hide a torn file.

mod artifact;
mod blob;
mod claim;
mod error;
mod hash;
mod kept_log;
mod layout;
mod lock;
pub mod manifest;
mod pipeline_state;
mod run_log;
mod sealed;
mod session;
mod source;
mod stamp;
mod stat_cache;
mod tree;
mod walk;

use std::path::Path;
use std::sync::{Mutex, PoisonError};

pub use claim::{Claim, Draft, Lookup, WriteRight};
pub use error::StoreError;
pub use pipeline_state::PipelineState;
pub use run_log::{RunLog, RunRecord};
pub use source::Source;

use layout::Layout;
use session::{Session, Temp};
use stat_cache::StatCache;

/// An open store. Shared between threads by reference.
pub struct Store {
    layout: Layout,
    stats: StatCache,
    warnings: Mutex<Warnings>,
    /// None: for reading only.
    session: Option<Session>,
}

#[derive(Default)]
struct Warnings {
    given: Vec<String>,
    waiting: Vec<String>,
}

impl Store {
    /// Opens the store in `root` for reading and writing, making it if there is none.
    pub fn open(root: &Path) -> Result<Self, StoreError> {
        std::fs::create_dir_all(root).map_err(|e| StoreError::writing(root, e))?;
        let root = root.canonicalize().map_err(|e| StoreError::reading(root, e))?;
        let layout = Layout::new(root);
        let session = Some(Session::begin(&layout)?);
        Ok(Self::new(layout, session))
    }

    /// Opens the store in `root` without writing anything. A missing one looks empty.
    pub fn open_read_only(root: &Path) -> Result<Self, StoreError> {
        let absolute = std::path::absolute(root).map_err(|e| StoreError::reading(root, e))?;
        Ok(Self::new(Layout::new(absolute.canonicalize().unwrap_or(absolute)), None))
    }

    fn new(layout: Layout, session: Option<Session>) -> Self {
        let stats = StatCache::new(layout.stat_cache());
        Self { layout, stats, warnings: Mutex::default(), session }
    }

    /// The directory that it was opened with.
    pub fn root(&self) -> &Path {
        self.layout.root()
    }

    /// Damage that was noticed since this was last asked. Each is told once.
    pub fn warnings(&self) -> Vec<String> {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        let waiting = std::mem::take(&mut warnings.waiting);
        warnings.given.extend_from_slice(&waiting);
        waiting
    }

    fn warn(&self, text: String) {
        let mut warnings = self.warnings.lock().unwrap_or_else(PoisonError::into_inner);
        if !warnings.given.contains(&text) && !warnings.waiting.contains(&text) {
            warnings.waiting.push(text);
        }
    }

    fn session(&self) -> Result<&Session, StoreError> {
        self.session.as_ref().ok_or_else(|| StoreError::ReadOnly { root: self.root().to_owned() })
    }

    fn temp(&self) -> Result<Temp, StoreError> {
        self.session()?.temp(&self.layout).map(Temp)
    }

    /// Moves a file that is no good to the trash, if we may, so that it is not met again.
    fn discard(&self, path: &Path) {
        if let Some(session) = &self.session
            && let Err(error) = session.discard(&self.layout, path)
        {
            self.warn(error.to_string());
        }
    }

    /// Puts a small file in place whole or not at all.
    fn write(&self, path: &Path, content: &[u8]) -> Result<(), StoreError> {
        let temp = self.temp()?;
        let written = std::fs::write(&temp, content).and_then(|()| std::fs::rename(&temp, path));
        written.map_err(|e| StoreError::writing(path, e))
    }
}

impl Drop for Store {
    /// What was learned about files is worth keeping, but not worth an error.
    fn drop(&mut self) {
        if self.session.is_some()
            && self.stats.has_news()
            && let Ok(temp) = self.temp()
        {
            let _ = self.stats.save(&temp);
        }
    }
}
