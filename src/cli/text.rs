//! How durations, sizes and colours look, everywhere the same.

use std::fmt::Write as _;

/// `0.4 s`, `41 s`, `3 min 20 s`, `2 h 05 min`.
pub(super) fn duration(seconds: f64) -> String {
    if seconds < 0.0995 {
        format!("{:.0} ms", seconds * 1e3)
    } else if seconds < 9.95 {
        format!("{seconds:.1} s")
    } else if seconds < 59.5 {
        format!("{seconds:.0} s")
    } else if seconds < 3599.5 {
        let whole = seconds.round() as u64;
        format!("{} min {:02} s", whole / 60, whole % 60)
    } else {
        let minutes = (seconds / 60.0).round() as u64;
        format!("{} h {:02} min", minutes / 60, minutes % 60)
    }
}

/// `512 B`, `1.5 MB`: powers of ten, three digits.
pub(super) fn bytes(count: u64) -> String {
    const UNITS: [&str; 6] = ["B", "kB", "MB", "GB", "TB", "PB"];
    let mut value = count as f64;
    let mut unit = 0;
    while value >= 999.5 && unit + 1 < UNITS.len() {
        value /= 1000.0;
        unit += 1;
    }
    match unit {
        0 => format!("{count} B"),
        _ if value < 9.995 => format!("{value:.2} {}", UNITS[unit]),
        _ if value < 99.95 => format!("{value:.1} {}", UNITS[unit]),
        _ => format!("{value:.0} {}", UNITS[unit]),
    }
}

/// `1 stage`, `3 stages`.
pub(super) fn count(n: usize, noun: &str) -> String {
    let plural = if n == 1 { "" } else { "s" };
    format!("{n} {noun}{plural}")
}

/// A number as a person would write it: short, but never rounded to something else at 4 digits.
pub(super) fn figure(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let magnitude = value.abs();
    if (1e-3..1e6).contains(&magnitude) { format!("{value:.4}") } else { format!("{value:.3e}") }
}

/// Terminal colours, or none of them.
#[derive(Debug, Clone, Copy)]
pub(super) struct Paint(pub bool);

impl Paint {
    fn wrap(self, code: &str, text: &str) -> String {
        let mut out = String::with_capacity(text.len() + 9);
        if self.0 {
            let _ = write!(out, "\x1b[{code}m{text}\x1b[0m");
        } else {
            out.push_str(text);
        }
        out
    }

    pub(super) fn bold(self, text: &str) -> String {
        self.wrap("1", text)
    }

    pub(super) fn dim(self, text: &str) -> String {
        self.wrap("2", text)
    }

    pub(super) fn red(self, text: &str) -> String {
        self.wrap("1;31", text)
    }

    pub(super) fn green(self, text: &str) -> String {
        self.wrap("32", text)
    }

    pub(super) fn yellow(self, text: &str) -> String {
        self.wrap("33", text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_read_like_speech() {
        let texts = [0.004, 0.25, 9.96, 59.6, 61.0, 3599.9, 7500.0].map(duration);
        assert_eq!(texts, ["4 ms", "0.2 s", "10 s", "1 min 00 s", "1 min 01 s", "1 h 00 min", "2 h 05 min"]);
    }

    #[test]
    fn sizes_keep_three_digits() {
        let texts = [0, 999, 1000, 1_500_000, 999_950, 123_000_000_000].map(bytes);
        assert_eq!(texts, ["0 B", "999 B", "1.00 kB", "1.50 MB", "1.00 MB", "123 GB"]);
    }

    #[test]
    fn without_colour_text_is_left_alone() {
        assert_eq!(Paint(false).red("x"), "x");
        assert_eq!(Paint(true).red("x"), "\x1b[1;31mx\x1b[0m");
    }
}
