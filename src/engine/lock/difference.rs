//! Shows the lines in which two versions of a small text differ.

/// Returns what is between the first and the last line that differ; `None` if a side is not text. It is meant for an edited
/// table, so it does not search for moved lines.
pub fn difference(expected: &[u8], found: &[u8]) -> Option<String> {
    let (old, new) = (std::str::from_utf8(expected).ok()?, std::str::from_utf8(found).ok()?);
    if old.contains('\0') || new.contains('\0') {
        return None;
    }
    let (old, new): (Vec<&str>, Vec<&str>) = (old.lines().collect(), new.lines().collect());
    let same_start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let rest = old.len().min(new.len()) - same_start;
    let same_end = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(a, b)| a == b).count();
    let mut text = format!("@@ line {} @@\n", same_start + 1);
    for (sign, lines) in [('-', &old), ('+', &new)] {
        let changed = &lines[same_start..lines.len() - same_end];
        for line in changed.iter().take(MOST_LINES) {
            let shown: String = line.chars().take(LONGEST_LINE).collect();
            text.push_str(&format!("{sign}{shown}\n"));
        }
        if changed.len() > MOST_LINES {
            text.push_str(&format!("{sign} and {} more lines\n", changed.len() - MOST_LINES));
        }
    }
    Some(text)
}

const MOST_LINES: usize = 12;
const LONGEST_LINE: usize = 160;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_differ_are_shown() {
        let shown = difference(b"a\n0.41\nz\n", b"a\n0.42\nnew\nz\n").unwrap();
        assert_eq!(shown, "@@ line 2 @@\n-0.41\n+0.42\n+new\n");
        assert_eq!(difference(b"same", b"same\n").unwrap(), "@@ line 2 @@\n");
        assert_eq!(difference(b"\xff", b"x"), None);
        let long: String = (0..100).map(|n| format!("{n}\n")).collect();
        assert!(difference(b"", long.as_bytes()).unwrap().ends_with("+ and 88 more lines\n"));
    }
}
