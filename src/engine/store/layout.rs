//! The directory tree of the store. No other code knows these names.
//!
//! ```text
//! cache/                            chosen by --cache-dir or PIPE_CACHE; other files in it are left alone
//!   v2/                             the version of the format: another format is another directory
//!     CACHEDIR.TAG                  tells backup programs that everything here can be computed again
//!     .gitignore                    tells git the same
//!     blobs/ab/<blob id>            content, named by its blake3, read-only
//!     actions/ab/<stage key>.json   manifests (sealed): the only files that are looked up
//!     checkpoints/<stage key>/      what a stage keeps between attempts; removed by its commit
//!     jobs/<stage key>/<number>/    jobs on a cluster; see `runner::cluster`. Removed when the key has a result
//!     packages/<digest>/            packages that commands use; see `package_directory`
//!     pipelines/<digest>.json       the last results of each pipeline file (sealed): the roots of gc, the memory of `why`
//!     runs/<time>-<random>/         events.jsonl, appended line by line; run.json (sealed) at the end;
//!                                   output of failed stages: <instance>.stdout, <instance>.stderr
//!     stat                          digests of files by their stat; see `stat_cache`
//!     summaries                     what runs need of manifests, by the stat of the manifest; see `summary`
//!     locks/<stage key>             held while the key is being computed; becomes the manifest
//!     locks/gc                      shared by every open store; exclusive while garbage is moved
//!     tmp/<owner>/                  temporary files of one process, which holds `lock` in it
//!     trash/<time>-<random>/        discarded files under their old names, and `replaced`, which was in the place of an
//!                                   output outside of the store; until the grace period ends
//! ```

use std::path::{Path, PathBuf};

use pipe_core::digest::{BlobId, Digest, StageKey};

const VERSION: &str = "v2";

/// The name of a file that every store has.
pub(super) const TAG: &str = "CACHEDIR.TAG";
const CACHEDIR_TAG: &str = "Signature: 8a477f597d28d172789f06886806bc55\n\
    # This directory holds results of `pipe` that can be computed again.\n";
const GIT_IGNORE: &str = "*\n";

/// The paths of the store. They are absolute, so that they can be passed to other processes.
#[derive(Debug, Clone)]
pub(super) struct Layout {
    root: PathBuf,
    base: PathBuf,
}

impl Layout {
    pub(super) fn new(root: PathBuf) -> Self {
        Self { base: root.join(VERSION), root }
    }

    /// Returns the directory that the user named.
    pub(super) fn root(&self) -> &Path {
        &self.root
    }

    pub(super) fn base(&self) -> &Path {
        &self.base
    }

    /// Returns every directory that exists while a store is open.
    pub(super) fn directories(&self) -> [PathBuf; 9] {
        [
            self.blobs(),
            self.actions(),
            self.all_checkpoints(),
            self.all_jobs(),
            self.pipelines(),
            self.runs(),
            self.locks(),
            self.tmp(),
            self.trash(),
        ]
    }

    pub(super) fn tag(&self) -> PathBuf {
        self.base.join(TAG)
    }

    pub(super) fn git_ignore(&self) -> PathBuf {
        self.base.join(".gitignore")
    }

    /// Returns the files that are the same in every store, with their texts.
    pub(super) fn fixed_files(&self) -> [(PathBuf, &'static str); 2] {
        [(self.tag(), CACHEDIR_TAG), (self.git_ignore(), GIT_IGNORE)]
    }

    pub(super) fn blobs(&self) -> PathBuf {
        self.base.join("blobs")
    }

    /// Returns `area/ab/abcdef...`. Every run asks for some of these paths for each stage.
    fn sharded(&self, area: &str, name: &str) -> PathBuf {
        let mut path = PathBuf::with_capacity(self.base.as_os_str().len() + area.len() + name.len() + 5);
        path.push(&self.base);
        path.push(area);
        path.push(&name[..2]);
        path.push(name);
        path
    }

    pub(super) fn blob(&self, id: BlobId) -> PathBuf {
        self.sharded("blobs", &id.digest().to_hex())
    }

    pub(super) fn actions(&self) -> PathBuf {
        self.base.join("actions")
    }

    pub(super) fn action(&self, key: StageKey) -> PathBuf {
        self.sharded("actions", &(key.digest().to_hex() + ".json"))
    }

    pub(super) fn all_checkpoints(&self) -> PathBuf {
        self.base.join("checkpoints")
    }

    pub(super) fn checkpoints(&self, key: StageKey) -> PathBuf {
        self.all_checkpoints().join(key.digest().to_hex())
    }

    pub(super) fn all_jobs(&self) -> PathBuf {
        self.base.join("jobs")
    }

    pub(super) fn jobs(&self, key: StageKey) -> PathBuf {
        self.all_jobs().join(key.digest().to_hex())
    }

    pub(super) fn all_packages(&self) -> PathBuf {
        self.base.join("packages")
    }

    pub(super) fn pipelines(&self) -> PathBuf {
        self.base.join("pipelines")
    }

    pub(super) fn pipeline(&self, id: Digest) -> PathBuf {
        self.pipelines().join(id.to_hex() + ".json")
    }

    pub(super) fn runs(&self) -> PathBuf {
        self.base.join("runs")
    }

    pub(super) fn stat_cache(&self) -> PathBuf {
        self.base.join("stat")
    }

    pub(super) fn summaries(&self) -> PathBuf {
        self.base.join("summaries")
    }

    pub(super) fn locks(&self) -> PathBuf {
        self.base.join("locks")
    }

    pub(super) fn key_lock(&self, key: StageKey) -> PathBuf {
        self.locks().join(key.digest().to_hex())
    }

    pub(super) fn gc_lock(&self) -> PathBuf {
        self.locks().join("gc")
    }

    pub(super) fn tmp(&self) -> PathBuf {
        self.base.join("tmp")
    }

    pub(super) fn trash(&self) -> PathBuf {
        self.base.join("trash")
    }
}

/// Returns the key that the file name of a manifest stands for.
pub(super) fn key_of_action(path: &Path) -> Option<StageKey> {
    path.file_name()?.to_str()?.strip_suffix(".json")?.parse().ok()
}

/// The id that a blob's file name stands for.
pub(super) fn id_of_blob(path: &Path) -> Option<BlobId> {
    path.file_name()?.to_str()?.parse().ok()
}
