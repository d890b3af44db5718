//! Finds the files of registered data sets in the data directory, or downloads them.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};

use super::fetch::{DownloadClient, DownloadProgress, FetchError, digest_file};
use super::registry::{self, DataFile, KnownDataSet, UnknownDataSet};
use pipe_core::bad_file;
use pipe_core::digest::BlobId;

/// Finds files in the data directory and, unless it is offline, downloads missing ones.
pub struct Locator {
    directory: PathBuf,
    offline: bool,
    connect: fn() -> Result<DownloadClient, FetchError>,
}

/// Why a file cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum LocateError {
    #[error(transparent)]
    Unknown(#[from] UnknownDataSet),
    #[error("the data set {dataset} has no file `{file}`")]
    UnknownFile { dataset: String, file: String },
    #[error(transparent)]
    Missing(Box<MissingFile>),
    #[error(
        "{} is not the file that {expected_by}: it has {found}, but {expected} is expected\n\
         Remove it to download it again, or load your own version of the data with `load: {{ files: ... }}`.",
        path.display()
    )]
    Different { path: PathBuf, expected_by: &'static str, found: String, expected: String },
    #[error("cannot {doing} {}: {source}", path.display())]
    Io { doing: &'static str, path: PathBuf, source: io::Error },
}

/// A file that is not in the data directory and cannot be downloaded.
#[derive(Debug, thiserror::Error)]
#[error(
    "{file}, a file of the data set {dataset}, is not in {}, and {reason}\n\
     Its source is {url}\n\
     Put it at {}, or name a directory that contains it with --data-dir or PIPE_DATA_DIR.\n\
     `pipe init --quickstart` writes a pipeline that needs no data.",
    directory.display(), place.display()
)]
pub struct MissingFile {
    pub dataset: String,
    pub file: String,
    pub url: String,
    pub directory: PathBuf,
    /// Where the file is expected.
    pub place: PathBuf,
    pub reason: String,
}

/// Why a file was not downloaded from one of its sources.
enum DownloadFailure {
    /// Another source may have the file.
    Source(String),
    /// No other source would help.
    Machine(LocateError),
}

impl From<FetchError> for DownloadFailure {
    fn from(error: FetchError) -> Self {
        match error {
            FetchError::Io { doing, path, source } => Self::Machine(LocateError::Io { doing, path, source }),
            error => Self::Source(error.to_string()),
        }
    }
}

/// The length and the digest of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct FileChecksum {
    bytes: u64,
    blake3: BlobId,
}

/// The checksums of files without one in the registry, as they were at first use, by `<set>/<file>`. Stored in the data
/// directory.
type Checksums = BTreeMap<String, FileChecksum>;
const CHECKSUMS: &str = "checksums.json";

/// Returns the data directory: that of the command line, else that of `PIPE_DATA_DIR`, else `data` in the project
/// directory.
pub fn data_directory(flag: Option<&Path>, environment: Option<OsString>, project: &Path) -> PathBuf {
    let named = environment.filter(|value| !value.is_empty()).map(PathBuf::from);
    flag.map(Path::to_owned).or(named).unwrap_or_else(|| project.join("data"))
}

impl Locator {
    /// Creates a locator for a data directory.
    pub fn new(directory: impl Into<PathBuf>, offline: bool) -> Self {
        Self { directory: directory.into(), offline, connect: DownloadClient::new }
    }

    /// Returns the data directory.
    pub fn directory(&self) -> &Path {
        &self.directory
    }

    /// Returns the path of a file if it exists: `<directory>/<file>` or `<directory>/<set>/<file>`, compressed as at its
    /// source or not compressed. Does not download and does not read the content.
    pub fn find(&self, dataset: &str, file: &str) -> Result<Option<PathBuf>, LocateError> {
        let (entry, file) = known(dataset, file)?;
        Ok(self.search(entry, file))
    }

    /// Finds a file or downloads it. A downloaded file has been checked; for a file that was found, see
    /// [`Locator::check`].
    pub fn obtain(
        &self,
        dataset: &str,
        file: &str,
        progress: &mut dyn FnMut(DownloadProgress),
    ) -> Result<PathBuf, LocateError> {
        let (entry, file) = known(dataset, file)?;
        self.obtain_file(entry, file, progress)
    }

    fn obtain_file(
        &self,
        entry: &KnownDataSet,
        file: &DataFile,
        progress: &mut dyn FnMut(DownloadProgress),
    ) -> Result<PathBuf, LocateError> {
        if let Some(path) = self.search(entry, file) {
            return Ok(path);
        }
        let target = self.target(entry, file);
        let missing = |reason: String| {
            LocateError::Missing(Box::new(MissingFile {
                dataset: entry.name.clone(),
                file: file.name.clone(),
                url: file.url.clone(),
                directory: self.directory.clone(),
                place: target.clone(),
                reason,
            }))
        };
        if self.offline {
            return Err(missing("downloads are disabled by --offline.".to_owned()));
        }
        let client =
            (self.connect)().map_err(|error| missing(format!("nothing can be downloaded: {error}.")))?;
        let mut failures = String::new();
        for url in file.sources() {
            match self.download(&client, entry, url, &target, progress) {
                Err(DownloadFailure::Source(why)) => failures += &format!("\n  {url}: {why}"),
                Err(DownloadFailure::Machine(error)) => return Err(error),
                Ok(()) => return Ok(target),
            }
        }
        Err(missing(format!("it could not be downloaded:{failures}")))
    }

    /// Downloads a file from one of its sources and checks it.
    fn download(
        &self,
        client: &DownloadClient,
        entry: &KnownDataSet,
        url: &str,
        target: &Path,
        progress: &mut dyn FnMut(DownloadProgress),
    ) -> Result<(), DownloadFailure> {
        client.fetch(url, target, progress)?;
        let io = |source| LocateError::Io { doing: "read", path: target.to_owned(), source };
        let (blake3, bytes) = digest_file(target).map_err(|error| DownloadFailure::Machine(io(error)))?;
        match self.check_file(entry, target, FileChecksum { bytes, blake3 }) {
            Ok(_) => Ok(()),
            Err(LocateError::Different { expected_by, found, expected, .. }) => {
                let _ = fs::remove_file(target);
                let why =
                    format!("not the file that {expected_by}: it has {found}, but {expected} is expected");
                Err(DownloadFailure::Source(why))
            }
            Err(error) => Err(DownloadFailure::Machine(error)),
        }
    }

    /// Checks a file against the checksum of the registry or, without one, against the checksum at first use. At first
    /// use, stores the checksum. `digest` is the plain blake3 digest of the file. Returns a warning if stored checksums were
    /// damaged.
    pub fn check(
        &self,
        dataset: &str,
        path: &Path,
        digest: BlobId,
        bytes: u64,
    ) -> Result<Option<String>, LocateError> {
        self.check_file(registry::find(dataset)?, path, FileChecksum { bytes, blake3: digest })
    }

    /// Moves a file that failed its check aside, so that it can be downloaded again, and returns its new path. Does nothing if
    /// the file was not downloaded by `pipe`, if only its first use says what it should be, or if downloads are disabled.
    pub fn set_aside(&self, dataset: &str, file: &str, path: &Path) -> Option<PathBuf> {
        let (entry, file) = known(dataset, file).ok()?;
        self.set_aside_file(entry, file, path)
    }

    fn set_aside_file(&self, entry: &KnownDataSet, file: &DataFile, path: &Path) -> Option<PathBuf> {
        if self.offline || file.blake3.is_none() || path != self.target(entry, file) {
            return None;
        }
        move_aside(path).ok()
    }

    fn check_file(
        &self,
        entry: &KnownDataSet,
        path: &Path,
        seen: FileChecksum,
    ) -> Result<Option<String>, LocateError> {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        match entry.file_named(&name).and_then(|file| Some((file.bytes?, file.blake3.as_deref()?))) {
            Some((bytes, blake3)) => {
                must_match(path, "the registry describes", seen, format!("{bytes} bytes, blake3 {blake3}"))?;
                Ok(None)
            }
            None => self.compare_with_first_use(entry, &name, path, seen),
        }
    }

    fn compare_with_first_use(
        &self,
        entry: &KnownDataSet,
        name: &str,
        path: &Path,
        seen: FileChecksum,
    ) -> Result<Option<String>, LocateError> {
        let list = self.directory.join(CHECKSUMS);
        let failed = |source| LocateError::Io { doing: "read", path: list.clone(), source };
        let mut warning = None;
        let mut checksums = match fs::read(&list) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => Checksums::new(),
            Err(error) => return Err(failed(error)),
            Ok(text) => match serde_json::from_slice(&text) {
                Ok(checksums) => checksums,
                Err(flaw) => {
                    let aside = move_aside(&list).map_err(failed)?;
                    warning = Some(format!(
                        "{} is damaged ({flaw}), so that changes of data files since their first use cannot be noticed; it was \
                         moved to {}, and the files count as used for the first time",
                        list.display(),
                        aside.display()
                    ));
                    Checksums::new()
                }
            },
        };
        match checksums.get(&format!("{}/{name}", entry.name)) {
            Some(first) => must_match(path, "was used the first time", seen, describe(*first))?,
            None => {
                checksums.insert(format!("{}/{name}", entry.name), seen);
                // A data directory may be read-only.
                let _ = save(&list, &checksums);
            }
        }
        Ok(warning)
    }

    fn search(&self, entry: &KnownDataSet, file: &DataFile) -> Option<PathBuf> {
        let plain = [".bz2", ".gz", ".zst"].iter().find_map(|end| file.name.strip_suffix(end));
        let names = [Some(file.name.as_str()), plain];
        let places = names
            .into_iter()
            .flatten()
            .flat_map(|name| [self.directory.join(name), self.directory.join(&entry.name).join(name)]);
        places.into_iter().find(|place| place.is_file())
    }

    /// Returns where a downloaded file is stored.
    fn target(&self, entry: &KnownDataSet, file: &DataFile) -> PathBuf {
        self.directory.join(&entry.name).join(&file.name)
    }
}

fn known(dataset: &str, file: &str) -> Result<(&'static KnownDataSet, &'static DataFile), LocateError> {
    let entry = registry::find(dataset)?;
    let unknown = || LocateError::UnknownFile { dataset: dataset.to_owned(), file: file.to_owned() };
    Ok((entry, entry.file_named(file).ok_or_else(unknown)?))
}

/// Renames a damaged file, and returns its new path.
fn move_aside(path: &Path) -> io::Result<PathBuf> {
    let kept = bad_file::free_path(path);
    fs::rename(path, &kept)?;
    Ok(kept)
}

fn describe(seen: FileChecksum) -> String {
    format!("{} bytes, blake3 {}", seen.bytes, seen.blake3)
}

fn must_match(
    path: &Path,
    expected_by: &'static str,
    seen: FileChecksum,
    expected: String,
) -> Result<(), LocateError> {
    let found = describe(seen);
    if found == expected {
        return Ok(());
    }
    Err(LocateError::Different { path: path.to_owned(), expected_by, found, expected })
}

fn save(list: &Path, checksums: &Checksums) -> io::Result<()> {
    let directory = list.parent().unwrap_or(Path::new("."));
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    serde_json::to_writer_pretty(&mut file, checksums)?;
    io::Write::write_all(&mut file, b"\n")?;
    file.persist(list).map(drop).map_err(io::Error::from)
}

#[cfg(test)]
mod tests {
    use super::super::fetch::test_server::{Server, answer, client};
    use super::super::registry::FileRole;
    use super::*;

    fn served(content: &'static [u8], blake3: Option<BlobId>) -> (Server, KnownDataSet) {
        let length = format!("Content-Length: {}\r\n", content.len());
        let server = Server::start(move |_, _| answer("200 OK", &length, content));
        let mut entry = registry::find("bibtex").unwrap().clone();
        entry.files = vec![DataFile {
            name: "rows.arff".to_owned(),
            role: FileRole::All,
            url: format!("{}/rows.arff", server.address),
            mirrors: Vec::new(),
            bytes: blake3.map(|_| content.len() as u64),
            blake3: blake3.map(|digest| digest.to_string()),
        }];
        (server, entry)
    }

    fn online(directory: &Path) -> Locator {
        Locator { connect: client, ..Locator::new(directory, false) }
    }

    #[test]
    fn a_missing_file_is_downloaded_once_and_then_found() {
        let temp = tempfile::tempdir().unwrap();
        let (server, entry) = served(b"rows", Some(digest(b"rows")));
        for _ in 0..2 {
            let path = online(temp.path()).obtain_file(&entry, &entry.files[0], &mut |_| {}).unwrap();
            assert_eq!(path, temp.path().join("bibtex/rows.arff"));
        }
        assert_eq!(server.requests.lock().unwrap().len(), 1);
    }

    #[test]
    fn a_download_with_a_wrong_checksum_is_not_kept() {
        let temp = tempfile::tempdir().unwrap();
        let (_server, entry) = served(b"rows", Some(digest(b"others")));
        let error = online(temp.path()).obtain_file(&entry, &entry.files[0], &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("not the file that the registry describes"), "{error}");
        assert!(!temp.path().join("bibtex/rows.arff").exists());
    }

    #[test]
    fn the_next_source_is_tried_if_one_fails_or_has_other_content() {
        let temp = tempfile::tempdir().unwrap();
        let (other, _) = served(b"rowz", None);
        let gone = Server::start(|_, _| answer("404 Not Found", "Content-Length: 0\r\n", b""));
        let (sound, mut entry) = served(b"rows", Some(digest(b"rows")));
        let address = |server: &Server| format!("{}/rows.arff", server.address);
        let file = &mut entry.files[0];
        (file.url, file.mirrors) = (address(&gone), vec![address(&other), address(&sound)]);
        let path = online(temp.path()).obtain_file(&entry, &entry.files[0], &mut |_| {}).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"rows");

        fs::remove_file(path).unwrap();
        entry.files[0].mirrors.pop();
        let error = online(temp.path()).obtain_file(&entry, &entry.files[0], &mut |_| {}).unwrap_err();
        let error = error.to_string();
        assert!(error.contains(&format!("{}: the server answered 404", address(&gone))), "{error}");
        assert!(error.contains(&format!("{}: not the file that the registry", address(&other))), "{error}");
    }

    #[test]
    fn without_a_registered_checksum_a_second_download_must_equal_the_first() {
        let temp = tempfile::tempdir().unwrap();
        let (_first, entry) = served(b"rows", None);
        let path = online(temp.path()).obtain_file(&entry, &entry.files[0], &mut |_| {}).unwrap();
        fs::remove_file(path).unwrap();
        let (_second, entry) = served(b"other rows", None);
        let error = online(temp.path()).obtain_file(&entry, &entry.files[0], &mut |_| {}).unwrap_err();
        assert!(error.to_string().contains("was used the first time"), "{error}");
    }

    fn digest(content: &[u8]) -> BlobId {
        BlobId::new(blake3::hash(content).into())
    }

    #[test]
    fn files_are_found_in_the_directory_and_in_that_of_their_set_compressed_or_not() {
        let temp = tempfile::tempdir().unwrap();
        let locator = Locator::new(temp.path(), true);
        let train = "eurlex_tfidf_train.svm.bz2";
        assert_eq!(locator.find("eurlex-4k", train).unwrap(), None);
        fs::create_dir(temp.path().join("eurlex-4k")).unwrap();
        for place in ["eurlex-4k/eurlex_tfidf_train.svm", "eurlex-4k/eurlex_tfidf_train.svm.bz2", train] {
            let place = temp.path().join(place);
            fs::write(&place, "x").unwrap();
            assert_eq!(locator.find("eurlex-4k", train).unwrap(), Some(place));
        }
        assert!(matches!(locator.find("eurlex-4k", "../x"), Err(LocateError::UnknownFile { .. })));
    }

    #[test]
    fn the_error_about_a_missing_file_names_its_source_and_its_expected_path() {
        let locator = Locator::new("mirror", true);
        let error = locator.obtain("bibtex", "bibtex-train.arff", &mut |_| {}).unwrap_err().to_string();
        for part in
            ["bibtex-train.arff", "https://raw", "mirror/bibtex/bibtex-train.arff", "init --quickstart"]
        {
            assert!(error.contains(part), "{error}");
        }
    }

    #[test]
    fn a_file_that_differs_from_the_registry_is_refused() {
        let locator = Locator::new("mirror", true);
        let path = Path::new("mirror/bibtex/bibtex.xml");
        let error = locator.check("bibtex", path, digest(b"x"), 1).unwrap_err().to_string();
        assert!(
            error.contains("not the file that the registry describes") && error.contains("5880"),
            "{error}"
        );
    }

    #[test]
    fn the_checksum_at_first_use_is_stored_and_a_change_is_an_error() {
        let temp = tempfile::tempdir().unwrap();
        let locator = Locator::new(temp.path(), true);
        let path = temp.path().join("eurlex_tfidf_test.svm.bz2");
        let check = |content: &[u8]| locator.check("eurlex-4k", &path, digest(content), content.len() as u64);
        check(b"first").unwrap();
        check(b"first").unwrap();
        let error = check(b"other").unwrap_err().to_string();
        assert!(error.contains("was used the first time"), "{error}");
    }

    #[test]
    fn damaged_checksums_are_moved_aside_with_a_warning() {
        let temp = tempfile::tempdir().unwrap();
        let locator = Locator::new(temp.path(), true);
        let path = temp.path().join("eurlex_tfidf_test.svm.bz2");
        let check = || locator.check("eurlex-4k", &path, digest(b"x"), 1).unwrap();
        assert_eq!(check(), None);
        fs::write(temp.path().join(CHECKSUMS), "{\"eurlex-4k/").unwrap();
        assert!(check().unwrap().contains("checksums.json.bad"));
        assert_eq!(check(), None);
        fs::write(temp.path().join(CHECKSUMS), "{\"eurlex-4k/again").unwrap();
        assert!(check().unwrap().contains("checksums.json.bad2"));
        let kept = fs::read_to_string(temp.path().join("checksums.json.bad")).unwrap();
        assert_eq!(kept, "{\"eurlex-4k/", "the first one is still there");
    }

    #[test]
    fn a_damaged_download_is_moved_aside_if_it_can_be_replaced() {
        let temp = tempfile::tempdir().unwrap();
        let (_server, entry) = served(b"rows", Some(digest(b"rows")));
        let (file, locator) = (&entry.files[0], online(temp.path()));
        let path = locator.obtain_file(&entry, file, &mut |_| {}).unwrap();
        fs::write(&path, "rowz").unwrap();
        let own = temp.path().join("rows.arff");
        assert_eq!(locator.set_aside_file(&entry, file, &own), None, "the user put it there");
        assert_eq!(Locator::new(temp.path(), true).set_aside_file(&entry, file, &path), None);
        let aside = locator.set_aside_file(&entry, file, &path).unwrap();
        assert_eq!(fs::read(aside).unwrap(), b"rowz");
        let path = locator.obtain_file(&entry, file, &mut |_| {}).unwrap();
        assert_eq!(fs::read(path).unwrap(), b"rows");
    }

    #[test]
    fn the_flag_takes_precedence_over_the_variable_and_an_empty_variable_is_ignored() {
        let project = Path::new("project");
        let choose = |flag: Option<&str>, variable: Option<&str>| {
            data_directory(flag.map(Path::new), variable.map(OsString::from), project)
        };
        assert_eq!(choose(Some("a"), Some("b")), Path::new("a"));
        assert_eq!(choose(None, Some("b")), Path::new("b"));
        assert_eq!(choose(None, Some("")), Path::new("project/data"));
    }
}
