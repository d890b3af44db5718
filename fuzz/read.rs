//! What the targets share: the bytes, up to a NUL byte and behind it, become the file of rows and
//! the file beside it, and are read on one thread.

use pipe_ml::data::artifact::DataSet;
use pipe_ml::data::csr::Features;
use pipe_ml::data::read::read;
use pipe_ml::data::format::Format;
use pipe_ml::data::source::{Raw, ReadOptions, Source};

pub fn read_as(format: Format, bytes: &[u8]) {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, content: &[u8]| {
        let path = temp.path().join(name);
        std::fs::write(&path, content).expect("a temporary file");
        path
    };
    let (rows, beside) = match bytes.iter().position(|&b| b == 0) {
        Some(at) if matches!(format, Format::Arff | Format::Citeulike) => (&bytes[..at], Some(&bytes[at + 1..])),
        _ if format == Format::Npy => (bytes, Some(bytes)),
        _ => (bytes, None),
    };
    let mut source = Source::file(write("rows", rows));
    if let Some(content) = beside {
        let path = write("beside", content);
        match format {
            Format::Arff => source.label_xml = Some(path),
            _ => source.parts[0].labels = Some(path),
        }
    }
    let options = ReadOptions { format: Some(format), ..ReadOptions::default() };
    if let Ok(Raw::Set(set)) = read(&source, &options, &temp.path().join("set"), 1) {
        check(&set);
    }
}

fn check(set: &DataSet) {
    assert_eq!(set.labels.check(), Ok(()));
    if let Features::Sparse(csr) = &set.features {
        assert_eq!(csr.check(), Ok(()));
    }
}
