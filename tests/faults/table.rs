//! The table of a campaign, as docs/faults.md shows it.

use std::fmt::Write;

use crate::campaign::{Count, Report};
use crate::trial::Outcome;

impl Report {
    /// Returns the table in Markdown.
    pub fn table(&self) -> String {
        let columns = Outcome::ALL.map(|outcome| format!("{outcome:?}").to_lowercase());
        let mut text = format!("| class | trials | faults | ok | {} |\n", columns.join(" | "));
        text += &format!("|---|{}\n", "--:|".repeat(columns.len() + 3));
        let mut all = Count::default();
        for (class, count, lacks) in &self.classes {
            let title = format!("`{}`: {}", class.name, class.title);
            if let Some(lacks) = lacks {
                let _ = writeln!(text, "| {title} (skipped: {lacks}) |{}", " |".repeat(columns.len() + 3));
                continue;
            }
            text += &row(&title, count);
            all.merge(count);
        }
        text + &row("**all**", &all)
    }

    /// Returns whether every trial could be made and nothing went wrong.
    pub fn is_clean(&self) -> bool {
        self.failures.is_empty() && self.classes.iter().all(|(_, count, _)| count.broken.0 == 0)
    }
}

fn row(title: &str, count: &Count) -> String {
    let number = |outcome: &Outcome| count.outcomes.get(outcome).copied().unwrap_or(0).to_string();
    let outcomes = Outcome::ALL.iter().map(number).collect::<Vec<_>>().join(" | ");
    format!("| {title} | {} | {} | {} | {outcomes} |\n", count.trials, count.faults, count.ok)
}
