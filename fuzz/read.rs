//! Shared by the targets of the formats: reads the fuzzed bytes as the files of a data set, on one thread.

use pipe_ml::data::artifact::DataSet;
use pipe_ml::data::csr::Features;
use pipe_ml::data::format::Format;
use pipe_ml::data::read::read;
use pipe_ml::data::source::{DataSource, NominalEncoding, RawData, ReadOptions};

/// Reads the bytes in a format. The reader must return a valid data set or an error, and must not panic.
///
/// For formats with two files, a NUL byte separates them.
pub fn read_as(format: Format, bytes: &[u8]) {
    let temp = tempfile::tempdir().expect("a temporary directory");
    let write = |name: &str, content: &[u8]| {
        let path = temp.path().join(name);
        std::fs::write(&path, content).expect("a temporary file");
        path
    };
    let split_at_nul = || match bytes.iter().position(|&byte| byte == 0) {
        Some(at) => (&bytes[..at], Some(&bytes[at + 1..])),
        None => (bytes, None),
    };
    let mut source = DataSource::default();
    match format {
        Format::Arff => {
            let (rows, xml) = split_at_nul();
            source = DataSource::file(write("rows", rows));
            source.label_xml = xml.map(|xml| write("labels.xml", xml));
        }
        Format::Citeulike => {
            let (rows, tags) = split_at_nul();
            source = DataSource::file(write("rows", rows));
            source.parts[0].labels = tags.map(|tags| write("tags", tags));
        }
        Format::Npy => {
            source = DataSource::file(write("rows", bytes));
            source.parts[0].labels = Some(write("labels", bytes));
        }
        Format::Libsvm | Format::Xmc | Format::Safetensors | Format::Csv | Format::Jsonl => {
            source = DataSource::file(write("rows", bytes));
        }
        Format::Generated => {}
    }
    let nominal = Some(NominalEncoding::OneHot);
    let options = ReadOptions { format: Some(format), nominal, ..ReadOptions::default() };
    if let Ok(RawData::Set(set)) = read(&source, &options, &temp.path().join("set"), 1) {
        check(&set);
    }
}

fn check(set: &DataSet) {
    assert_eq!(set.labels.check(), Ok(()));
    if let Features::Sparse(csr) = &set.features {
        assert_eq!(csr.check(), Ok(()));
    }
}
