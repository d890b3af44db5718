//! Terminal colours.
//!
//! Written by hand because it is only seven escape codes; `anstyle`, which clap depends on, would take as many lines.

/// Colours text for a terminal, or leaves it alone if the field is false.
#[derive(Debug, Clone, Copy)]
pub struct Paint(pub bool);

impl Paint {
    fn wrap(self, code: &str, text: &str) -> String {
        if self.0 { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// Returns the text in bold.
    pub fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    /// Returns the text underlined.
    pub fn underlined(self, text: &str) -> String {
        self.wrap("4", text)
    }

    /// Returns the text dimmed.
    pub fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    /// Returns the text in bold red, for errors.
    pub fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    /// Returns the text in green, for success.
    pub fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    /// Returns the text in yellow, for warnings.
    pub fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }

    /// Returns the text in bold blue, for the frame around source lines.
    pub fn blue(self, text: &str) -> String {
        self.wrap("1;34", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_is_left_alone_without_colour() {
        assert_eq!(Paint(false).red("x"), "x");
        assert_eq!(Paint(true).red("x"), "\x1b[1;31mx\x1b[0m");
    }
}
