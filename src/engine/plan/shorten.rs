//! Long values in texts about changes.

/// Cuts long values down to the part that differs; `--json` has them in full.
pub fn shorten(old: &str, new: &str) -> (String, String) {
    const LONG: usize = 60;
    const AROUND: usize = 16;
    let (old, new): (Vec<char>, Vec<char>) = (old.chars().collect(), new.chars().collect());
    if old.len().max(new.len()) <= LONG {
        return (old.iter().collect(), new.iter().collect());
    }
    let start = old.iter().zip(&new).take_while(|(a, b)| a == b).count();
    let shorter = old.len().min(new.len()) - start;
    let end = old.iter().rev().zip(new.iter().rev()).take(shorter).take_while(|(a, b)| a == b).count();
    let cut = |text: &[char]| {
        let from = start.saturating_sub(AROUND);
        let to = (text.len() - end + AROUND).min(text.len()).min(from + LONG);
        let (front, back) = (if from > 0 { "…" } else { "" }, if to < text.len() { "…" } else { "" });
        format!("{front}{}{back}", text[from..to].iter().collect::<String>())
    };
    (cut(&old), cut(&new))
}

#[cfg(test)]
mod tests {
    use super::shorten;

    #[test]
    fn long_values_are_cut_down_to_the_part_that_differs() {
        let long = |middle: &str| format!("{}{middle}{}", "a".repeat(50), "z".repeat(50));
        let around = |middle: &str| format!("…{}{middle}{}…", "a".repeat(16), "z".repeat(16));
        assert_eq!(shorten(&long("1"), &long("22")), (around("1"), around("22")));
        assert_eq!(shorten("1", "2"), ("1".to_owned(), "2".to_owned()));
        let (whole, prefix) = shorten(&"a".repeat(100), &"a".repeat(90));
        assert!(whole.starts_with('…') && prefix.starts_with('…'), "{whole} {prefix}");
    }
}
