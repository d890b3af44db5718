//! Detects the format of a file from its first bytes.

use super::error::LineExcerpt;
use super::format::Format;
use super::libsvm::XmcHeader;
use super::number::integer;

/// Returns the format that the first bytes of a file look like, or `None` if they look like none.
///
/// `labels_beside` says that the labels are in a second file.
pub(crate) fn detect(head: &[u8], labels_beside: bool) -> Option<Format> {
    let text = TextHead::new(head);
    Format::DETECTION_ORDER.into_iter().find(|&format| matches(format, head, &text, labels_beside))
}

/// Returns a sentence about a file that no reader reads although users often have such files.
pub(crate) fn unreadable(head: &[u8]) -> Option<&'static str> {
    if head.starts_with(&[0xff, 0xfe]) || head.starts_with(&[0xfe, 0xff]) {
        return Some(
            "it is UTF-16 text: save it as UTF-8, for example with `iconv -f UTF-16 -t UTF-8 FILE > NEW`",
        );
    }
    if head.starts_with(b"PK\x03\x04") {
        return Some("it is a zip archive, as spreadsheets are: unpack it, or save the table as CSV");
    }
    let text = head.trim_ascii_start();
    let is_array = text.strip_prefix(b"[").is_some_and(|rest| rest.trim_ascii_start().starts_with(b"{"));
    is_array.then_some(
        "it is a JSON array: write one object per line, for example with `jq -c '.[]' FILE > NEW.jsonl`",
    )
}

/// The first bytes of a file as lines of text.
struct TextHead<'a> {
    lines: Vec<&'a [u8]>,
    /// The first line that is not blank; empty if there is none.
    first: &'a [u8],
    /// The first line that is neither blank nor a comment; empty if there is none.
    first_row: &'a [u8],
}

impl<'a> TextHead<'a> {
    fn new(head: &'a [u8]) -> Self {
        let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
        let lines: Vec<&[u8]> =
            head.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line)).collect();
        let mut filled = lines.iter().copied().filter(|line| !line.trim_ascii().is_empty());
        let first_row = filled.clone().find(|line| !line.starts_with(b"#")).unwrap_or_default();
        Self { first: filled.next().unwrap_or_default(), first_row, lines }
    }
}

/// Returns whether a file looks like `format`, given that it looks like none of the formats that come first in
/// [`Format::DETECTION_ORDER`].
fn matches(format: Format, head: &[u8], text: &TextHead, labels_beside: bool) -> bool {
    match format {
        Format::Npy => head.starts_with(b"\x93NUMPY"),
        Format::Safetensors => is_safetensors(head),
        Format::Arff => is_arff(&text.lines),
        Format::Jsonl => text.first.trim_ascii().starts_with(b"{"),
        Format::Citeulike => labels_beside && is_counted_line(text.first),
        Format::Xmc => text.lines.first().is_some_and(|line| XmcHeader::parse(line).is_some()),
        Format::Libsvm => is_libsvm(text.first_row),
        // Some programs end lines with a carriage return alone.
        Format::Csv => is_csv(text.first.split(|&b| b == b'\r').next().unwrap_or_default().trim_ascii()),
        Format::Generated => false,
    }
}

/// Returns a readable excerpt of the first line, for messages.
pub(crate) fn first_line(head: &[u8]) -> String {
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    LineExcerpt::of(line, 0).text
}

fn is_safetensors(head: &[u8]) -> bool {
    let length = head.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
    length.is_some_and(|n| n > 1 && n < 100_000_000) && head.get(8) == Some(&b'{')
}

/// Returns whether the first line that is not a comment declares a relation.
fn is_arff(lines: &[&[u8]]) -> bool {
    let mut lines =
        lines.iter().map(|line| line.trim_ascii()).filter(|line| !line.is_empty() && line[0] != b'%');
    lines.next().is_some_and(|line| line.get(..9).is_some_and(|w| w.eq_ignore_ascii_case(b"@relation")))
}

/// Returns whether a line has as many pairs as its first number says: `3 17:1 4:2 9:1`.
fn is_counted_line(line: &[u8]) -> bool {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let count = fields.next().and_then(|field| std::str::from_utf8(field).ok()?.parse::<usize>().ok());
    count == Some(fields.clone().count()) && fields.all(|field| field.contains(&b':'))
}

/// Returns whether a line starts with labels or a pair and, if it has more than one field, contains a pair.
fn is_libsvm(line: &[u8]) -> bool {
    let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty());
    let Some(first) = fields.next() else { return false };
    let is_pair = |field: &[u8]| {
        let (index, end) = integer(field, 0);
        index.is_some() && end > 0 && field.get(end) == Some(&b':')
    };
    let is_labels =
        |field: &[u8]| field.split(|&b| b == b',').all(|l| !l.is_empty() && l.iter().all(u8::is_ascii_digit));
    match fields.next() {
        None => is_pair(first) || (is_labels(first) && !first.contains(&b',')),
        Some(second) => (is_pair(first) || is_labels(first)) && is_pair(second),
    }
}

/// Returns whether a line is printable text with a separator.
fn is_csv(line: &[u8]) -> bool {
    let printable =
        std::str::from_utf8(line).is_ok_and(|text| !text.chars().any(|c| c.is_control() && c != '\t'));
    printable && line.iter().any(|b| matches!(b, b',' | b';' | b'\t'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_detected_from_its_first_lines() {
        for (head, format) in [
            (&b"3,17 12:0.3 88:0.07\n"[..], Format::Libsvm),
            (b" 12:0.3\n", Format::Libsvm),
            (b"12:0.3\n", Format::Libsvm),
            (b"# a comment\n\n1 12:0.3\n", Format::Libsvm),
            (b"#,text\n1,a b\n", Format::Csv),
            (b"text,labels\rhello,a\r", Format::Csv),
            (b"\xef\xbb\xbf\r\n1 2:3\r\n", Format::Libsvm),
            (b"2 5 3\n0,1 0:1 4:0.5\n", Format::Xmc),
            (b"% a comment\n\n@RELATION x\n", Format::Arff),
            (b"{\"text\": \"a\"}\n", Format::Jsonl),
            (b"text,labels\nhello,a;b\n", Format::Csv),
            (b"text\tlabels\n", Format::Csv),
            (b"\x93NUMPY\x01\x00", Format::Npy),
            (b"\x10\0\0\0\0\0\0\0{\"a\":", Format::Safetensors),
        ] {
            assert_eq!(detect(head, false), Some(format), "{}", String::from_utf8_lossy(head));
        }
    }

    #[test]
    fn files_that_users_often_have_but_no_reader_reads_are_called_by_their_names() {
        for (head, name) in [
            (&b"\xff\xfet\0e\0"[..], "UTF-16"),
            (b"PK\x03\x04\x14\0", "zip"),
            (b"[ {\"text\": 1}, {}]", "JSON array"),
            (b"\n[\n  {\n", "JSON array"),
        ] {
            assert!(unreadable(head).is_some_and(|reason| reason.contains(name)), "{name}");
        }
        assert_eq!(unreadable(b"[id],text\n"), None);
    }

    #[test]
    fn citeulike_text_is_only_detected_with_a_file_of_labels() {
        assert_eq!(detect(b"2 10:1 3:2\n", true), Some(Format::Citeulike));
        assert_eq!(detect(b"2 10:1 3:2\n", false), Some(Format::Libsvm));
    }

    #[test]
    fn files_in_no_known_format_are_not_detected() {
        for head in [&b""[..], b"\n\n", b"hello world\n", b"\x7fELF\x02\x01,", b"<html>\n"] {
            assert_eq!(detect(head, false), None, "{}", String::from_utf8_lossy(head));
        }
    }
}
