//! Quoting of words for a shell, so that commands in messages can be pasted.

/// Returns the word as a POSIX shell reads it back: unchanged if it is harmless, else in single quotes.
pub fn shell(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "_-+=.,:/@%".contains(c);
    if !word.is_empty() && word.chars().all(is_plain) {
        word.to_owned()
    } else {
        format!("'{}'", word.replace('\'', r"'\''"))
    }
}

#[cfg(test)]
mod tests {
    use super::shell;

    #[test]
    fn a_word_is_quoted_only_if_the_shell_would_change_it() {
        let words = ["pipelines/a.yaml", "vars.seeds=[0, 1]", "it's", "", "größe", "train[adaptive]"];
        let quoted =
            ["pipelines/a.yaml", "'vars.seeds=[0, 1]'", r"'it'\''s'", "''", "'größe'", "'train[adaptive]'"];
        assert_eq!(words.map(shell), quoted);
    }
}
