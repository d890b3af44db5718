//! Which format a file has, from how its content starts.

use super::error::Excerpt;
use super::libsvm::XmcHeader;
use super::number::integer;
use super::report::Format;

/// `None` if it looks like none of them. `labels_beside` says that the labels are in another file.
pub fn detect(head: &[u8], labels_beside: bool) -> Option<Format> {
    if head.starts_with(b"\x93NUMPY") {
        return Some(Format::Npy);
    }
    if is_safetensors(head) {
        return Some(Format::Safetensors);
    }
    let head = head.strip_prefix(b"\xef\xbb\xbf").unwrap_or(head);
    let mut lines = head.split(|&b| b == b'\n').map(|line| line.strip_suffix(b"\r").unwrap_or(line));
    let first = lines.clone().find(|line| !line.trim_ascii().is_empty())?;
    let words = first.trim_ascii();
    if is_arff(lines.clone()) {
        return Some(Format::Arff);
    }
    if words.starts_with(b"{") {
        return Some(Format::Jsonl);
    }
    if labels_beside && is_counted_bag(first) {
        return Some(Format::Citeulike);
    }
    if lines.next().is_some_and(|line| XmcHeader::parse(line).is_some()) {
        return Some(Format::Xmc);
    }
    if is_libsvm(first) {
        return Some(Format::Libsvm);
    }
    let printable =
        std::str::from_utf8(words).is_ok_and(|text| !text.chars().any(|c| c.is_control() && c != '\t'));
    (printable && words.iter().any(|b| matches!(b, b',' | b';' | b'\t'))).then_some(Format::Csv)
}

/// The first line, for the message that says that nothing fits.
pub(crate) fn first_line(head: &[u8]) -> String {
    let line = head.split(|&b| b == b'\n').next().unwrap_or_default();
    Excerpt::of(line, 0).text
}

fn is_safetensors(head: &[u8]) -> bool {
    let length = head.first_chunk::<8>().map(|bytes| u64::from_le_bytes(*bytes));
    length.is_some_and(|n| n > 1 && n < 100_000_000) && head.get(8) == Some(&b'{')
}

/// The first line that is no comment declares a relation.
fn is_arff<'a>(lines: impl Iterator<Item = &'a [u8]>) -> bool {
    let mut lines = lines.map(<[u8]>::trim_ascii).filter(|line| !line.is_empty() && line[0] != b'%');
    lines.next().is_some_and(|line| line.get(..9).is_some_and(|w| w.eq_ignore_ascii_case(b"@relation")))
}

/// `3 17:1 4:2 9:1`: as many pairs as the first number says.
fn is_counted_bag(line: &[u8]) -> bool {
    let mut fields = line.split(|b| b.is_ascii_whitespace()).filter(|field| !field.is_empty());
    let count = fields.next().and_then(|field| std::str::from_utf8(field).ok()?.parse::<usize>().ok());
    count == Some(fields.clone().count()) && fields.all(|field| field.contains(&b':'))
}

/// Labels or pairs at the start of the line, and a pair somewhere if it has more than one field.
fn is_libsvm(line: &[u8]) -> bool {
    let mut fields = line.split(|b| b.is_ascii_whitespace()).filter(|field| !field.is_empty());
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_format_is_known_by_its_first_lines() {
        for (head, format) in [
            (&b"3,17 12:0.3 88:0.07\n"[..], Format::Libsvm),
            (b" 12:0.3\n", Format::Libsvm),
            (b"12:0.3\n", Format::Libsvm),
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
    fn counted_bags_need_their_labels_beside_them() {
        assert_eq!(detect(b"2 10:1 3:2\n", true), Some(Format::Citeulike));
        assert_eq!(detect(b"2 10:1 3:2\n", false), Some(Format::Libsvm));
    }

    #[test]
    fn what_is_no_data_is_not_guessed_at() {
        for head in [&b""[..], b"\n\n", b"hello world\n", b"\x7fELF\x02\x01,", b"<html>\n"] {
            assert_eq!(detect(head, false), None, "{}", String::from_utf8_lossy(head));
        }
    }
}
