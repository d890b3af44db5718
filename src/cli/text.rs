//! Formats durations, sizes, counts and values in the same way in every command.

/// Formats a duration: `0.4 s`, `41 s`, `3 min 20 s`, `2 h 05 min`.
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

/// Formats a size: `512 B`, `1.5 MB`; powers of ten, three digits.
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

/// Formats a number of things: `1 stage`, `3 stages`.
pub(super) fn count(n: usize, noun: &str) -> String {
    let plural = match noun {
        _ if n == 1 => "",
        noun if noun.ends_with('s') => "es",
        _ => "s",
    };
    format!("{n} {noun}{plural}")
}

/// Lists the first three names and the number of the others: `a, b, c and 2 more`.
pub(super) fn first_of(names: &[String]) -> String {
    let shown = names.len().min(3);
    let more = names.len() - shown;
    let list = names[..shown].join(", ");
    if more > 0 { format!("{list} and {more} more") } else { list }
}

/// Returns the pronoun for a number of things that were just named.
pub(super) fn them(n: usize) -> &'static str {
    if n == 1 { "it" } else { "them" }
}

/// Returns a text of the user on one line: control characters become blanks.
pub(super) fn one_line(text: &str) -> String {
    text.chars().map(|character| if character.is_control() { ' ' } else { character }).collect()
}

/// Formats a metric's value with four decimals; very large and very small ones in scientific notation.
pub(super) fn value(value: f64) -> String {
    if value == value.trunc() && value.abs() < 1e15 {
        return format!("{value:.0}");
    }
    let magnitude = value.abs();
    if (1e-3..1e6).contains(&magnitude) { format!("{value:.4}") } else { format!("{value:.3e}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_duration_has_one_or_two_units() {
        let texts = [0.004, 0.25, 9.96, 59.6, 61.0, 3599.9, 7500.0].map(duration);
        assert_eq!(texts, ["4 ms", "0.2 s", "10 s", "1 min 00 s", "1 min 01 s", "1 h 00 min", "2 h 05 min"]);
    }

    #[test]
    fn sizes_keep_three_digits() {
        let texts = [0, 999, 1000, 1_500_000, 999_950, 123_000_000_000].map(bytes);
        assert_eq!(texts, ["0 B", "999 B", "1.00 kB", "1.50 MB", "1.00 MB", "123 GB"]);
    }

    #[test]
    fn values_have_four_decimals_unless_they_are_whole_or_extreme() {
        let texts = [0.41237, 3.0, -0.5, 0.00001234, 12_345_678.5].map(value);
        assert_eq!(texts, ["0.4124", "3", "-0.5000", "1.234e-5", "1.235e7"]);
    }
}
