//! Shows the events of a run to a person or a script.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::io::IsTerminal;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressStyle};

use super::exit::{Exit, Outcome};
use super::remote;
use super::table::{shown_width, status_width, wrap_indented};
use super::{print_status, print_text, text};
use pipe_core::event::LogLevel;
use pipe_core::paint::Paint;
use pipe_core::protocol::MetricValue;
use pipe_engine::runner::event::{Event, PlaceOutcome, Summary};
use pipe_engine::runner::file_trace::listed;

/// How much status is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Verbosity {
    Quiet,
    Normal,
    Verbose,
}

/// How events are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Style {
    /// Progress bars on a terminal: one per running stage, redrawn.
    Live,
    /// One line per event.
    Lines,
    /// One JSON object per event on standard output.
    Json,
}

/// Prints events as they come.
pub(super) struct Console {
    style: Style,
    verbosity: Verbosity,
    paint: Paint,
    bars: Option<Bars>,
    total: usize,
    finished: usize,
    /// The messages of stages that were shown: one that every instance sends is shown once.
    shown: HashSet<String>,
    /// The stages that were skipped since the last other event, by the reason: they are shown together.
    skipped: Vec<(String, Vec<String>)>,
    /// The files that were placed, if standard output is a terminal; otherwise each is printed at once.
    placed: Option<Vec<String>>,
    printed: Outcome,
}

/// More placed files than this are shown as a number of files per directory on a terminal.
const LISTED_FILES: usize = 5;

/// Progress bars. They are created when the first stage starts, so that a fully cached run draws none.
struct Bars {
    all: MultiProgress,
    overall: ProgressBar,
    running: HashMap<String, ProgressBar>,
}

impl Console {
    /// Creates a console that has shown nothing yet.
    pub(super) fn new(style: Style, verbosity: Verbosity, paint: Paint) -> Self {
        let placed = std::io::stdout().is_terminal().then(Vec::new);
        Self {
            style,
            verbosity,
            paint,
            bars: None,
            total: 0,
            finished: 0,
            shown: HashSet::new(),
            skipped: Vec::new(),
            placed,
            printed: Ok(Exit::Done),
        }
    }

    /// Shows one event.
    pub(super) fn show(&mut self, event: &Event) {
        if self.style == Style::Json {
            if let Ok(line) = serde_json::to_string(event) {
                self.result(&line);
            }
            return;
        }
        if !matches!(event, Event::Skipped { .. }) {
            self.show_skipped();
        }
        match event {
            Event::RunStarted { instances, .. } => self.total = *instances,
            Event::Hit { instance, saved, writer, .. } => {
                self.finish(instance);
                if let Some(writer) = writer.as_ref().filter(|_| self.verbosity != Verbosity::Quiet) {
                    let rest = format!("from {writer}, saved {}", text::duration(*saved));
                    self.stage_line(&self.paint.green("taken"), instance, &rest);
                } else if self.verbosity == Verbosity::Verbose {
                    self.stage_line(
                        &self.paint.dim("cached"),
                        instance,
                        &format!("saved {}", text::duration(*saved)),
                    );
                }
            }
            Event::Started { instance, why, attempt, .. } => {
                if *attempt > 1 {
                    self.start(instance, &format!("attempt {attempt}: the attempt before it failed"));
                } else {
                    self.start(instance, &why.brief());
                }
            }
            Event::Waiting { instance, .. } => {
                self.start(instance, "another process is computing it; waiting for its result");
            }
            Event::Progress { instance, done, total, unit, message } => {
                self.progress(instance, *done, *total, unit, message);
            }
            Event::Metric { instance, name, value, protocol, .. } => {
                if self.verbosity == Verbosity::Verbose {
                    let mark = MetricValue { value: *value, protocol: *protocol }.suffix();
                    self.line(&format!("         {instance}: {name} = {}{mark}", text::value(*value)));
                }
            }
            Event::Log { instance, level, message } => self.log(instance.as_deref(), *level, message),
            // What it read follows as an error or as a finding.
            Event::Undeclared { instance, written, .. } => {
                if !written.is_empty() {
                    let message = format!(
                        "it wrote {} outside of its working directory, which nothing keeps or checks",
                        listed(written)
                    );
                    self.log(Some(instance), LogLevel::Warning, &message);
                }
            }
            Event::Done { instance, seconds, .. } => {
                self.finish(instance);
                if self.verbosity != Verbosity::Quiet {
                    self.stage_line(&self.paint.green("done"), instance, &text::duration(*seconds));
                }
            }
            Event::Failed { instance, error, stderr_tail, will_retry } => {
                self.failed(instance, error, stderr_tail, *will_retry);
            }
            Event::Skipped { instance, because } => {
                self.finish(instance);
                match self.skipped.last_mut().filter(|(reason, _)| reason == because) {
                    Some((_, instances)) => instances.push(instance.clone()),
                    None => self.skipped.push((because.clone(), vec![instance.clone()])),
                }
            }
            Event::Placed { path, outcome } => self.placed(path, *outcome),
            Event::Stopping { now } => self.line(if *now {
                "stopping at once"
            } else {
                "stopping: running stages are asked to end; press Ctrl-C again to stop at once"
            }),
            Event::RunFinished { summary } => {
                self.clear();
                if self.verbosity != Verbosity::Quiet {
                    for line in placed_lines(self.placed.as_deref().unwrap_or_default()) {
                        self.result(&line);
                    }
                    if let Some(remote) = &summary.remote {
                        self.line(&remote::summary_line(remote, self.paint));
                    }
                    self.line(&summary_line(summary, self.paint));
                    if summary.warned > 0 {
                        let results = text::count(summary.warned, "cached result");
                        self.line(&format!("{results} with warnings: `pipe runs show` shows them"));
                    }
                }
                self.warn_of_kept_files(&summary.kept);
            }
        }
    }

    /// Shows the skipped stages: one line for all that have the same reason, so that it does not hide the error.
    fn show_skipped(&mut self) {
        for (because, instances) in std::mem::take(&mut self.skipped) {
            let names = match self.verbosity {
                Verbosity::Quiet => continue,
                Verbosity::Normal => text::first_of(&instances),
                Verbosity::Verbose => instances.join(", "),
            };
            self.stage_line(&self.paint.yellow("skipped"), &names, &because);
        }
    }

    fn start(&mut self, instance: &str, why: &str) {
        if self.style == Style::Lines {
            if self.verbosity != Verbosity::Quiet {
                self.stage_line("start", instance, why);
            }
            return;
        }
        let (total, finished) = (self.total as u64, self.finished as u64);
        let bars = self.bars.get_or_insert_with(|| Bars::new(total));
        bars.overall.set_position(finished);
        bars.running.entry(instance.to_owned()).or_insert_with(|| {
            let bar = bars.all.insert_before(&bars.overall, ProgressBar::no_length());
            bar.set_style(stage_style(false));
            bar.enable_steady_tick(Duration::from_millis(120));
            bar.set_prefix(instance.to_owned());
            bar.set_message(fitted(why, instance));
            bar
        });
    }

    fn progress(&mut self, instance: &str, done: u64, total: Option<u64>, unit: &str, message: &str) {
        match self.bars.as_ref().and_then(|bars| bars.running.get(instance)) {
            Some(bar) => {
                if bar.length() != total {
                    bar.set_style(stage_style(total.is_some()));
                    total.map_or_else(|| bar.unset_length(), |total| bar.set_length(total));
                }
                bar.set_position(done);
                bar.set_message(fitted(message, instance));
            }
            None if self.verbosity == Verbosity::Verbose => {
                let of = total.map(|total| format!("/{total}")).unwrap_or_default();
                self.line(&format!("         {instance}: {unit} {done}{of} {message}"));
            }
            None => {}
        }
    }

    fn finish(&mut self, instance: &str) {
        self.finished += 1;
        if let Some(bars) = &mut self.bars {
            if let Some(bar) = bars.running.remove(instance) {
                bar.finish_and_clear();
                bars.all.remove(&bar);
            }
            bars.overall.set_position(self.finished as u64);
        }
    }

    fn failed(&mut self, instance: &str, error: &str, stderr_tail: &str, will_retry: bool) {
        if will_retry {
            self.line(&format!("{} {instance}: {error}; trying again", self.paint.yellow("warning:")));
            return;
        }
        self.finish(instance);
        self.line(&format!("{} {instance}: {error}", self.paint.red("error:")));
        if !stderr_tail.trim().is_empty() {
            self.line("  the last lines of its standard error:");
            for line in stderr_tail.lines() {
                self.line_as_it_is(&format!("  | {line}"));
            }
        }
    }

    fn log(&mut self, instance: Option<&str>, level: LogLevel, message: &str) {
        let prefix = instance.map(|instance| format!("{instance}: ")).unwrap_or_default();
        match (level, self.verbosity) {
            (LogLevel::Warning, _) => {
                self.line(&format!("{} {prefix}{message}", self.paint.yellow("warning:")));
            }
            (LogLevel::Info, Verbosity::Normal) if !self.shown.insert(message.to_owned()) => {}
            (LogLevel::Info, Verbosity::Normal) | (LogLevel::Info | LogLevel::Debug, Verbosity::Verbose) => {
                self.line(&format!("         {prefix}{message}"));
            }
            _ => {}
        }
    }

    /// Prints the path of a placed file to standard output, because it is a result; on a terminal, at the end. A file that was not replaced is
    /// reported by [`Self::warn_of_kept_files`].
    fn placed(&mut self, path: &str, outcome: PlaceOutcome) {
        if outcome == PlaceOutcome::KeptEdited || self.verbosity == Verbosity::Quiet {
            return;
        }
        if let Some(placed) = &mut self.placed {
            placed.push(path.to_owned());
        } else {
            self.clear();
            self.result(path);
        }
    }

    /// Warns at the end of the run, where it is seen, about files that are not what the run computed.
    fn warn_of_kept_files(&self, files: &[String]) {
        if !files.is_empty() {
            let them = text::them(files.len());
            let more = files.len().saturating_sub(LISTED_FILES);
            let shown = files[..files.len() - more].join(", ");
            let files = if more > 0 { format!("{shown} and {more} more") } else { shown };
            let reason = format!(
                "edited by hand, so the lock was not updated either; `pipe run --overwrite` replaces {them}"
            );
            self.line(&format!("{} not replaced: {files} ({reason})", self.paint.yellow("warning:")));
        }
    }

    fn stage_line(&self, verb: &str, instance: &str, rest: &str) {
        let width = (self.total.max(1)).to_string().len();
        let count = self.paint.dim(&format!("[{:>width$}/{}]", self.finished, self.total));
        self.line(&format!("{count} {verb:<7} {instance}  {}", self.paint.dim(rest)));
    }

    /// Prints a line of status, above the bars if there are any. A closed standard error does not stop a run.
    fn line(&self, text: &str) {
        match status_width() {
            Some(width) => self.line_as_it_is(&wrap_indented(text, width)),
            None => self.line_as_it_is(text),
        }
    }

    fn line_as_it_is(&self, text: &str) {
        match &self.bars {
            Some(bars) => {
                let _ = bars.all.println(text);
            }
            None => print_status(text),
        }
    }

    /// Prints a line to standard output. If that fails, the run goes on; [`Self::printed`] returns the error.
    fn result(&mut self, line: &str) {
        if self.printed.is_ok() {
            self.printed = print_text(&format!("{line}\n"));
        }
    }

    /// Returns whether everything could be printed to standard output.
    pub(super) fn printed(self) -> Outcome {
        self.printed
    }

    fn clear(&mut self) {
        if let Some(bars) = self.bars.take() {
            let _ = bars.all.clear();
        }
    }
}

impl Bars {
    fn new(total: u64) -> Self {
        let all = MultiProgress::new();
        let overall = all.add(ProgressBar::new(total));
        overall.set_style(style("{bar:30} {pos}/{len} stages, {elapsed}, {eta} left"));
        // Without this, the elapsed time would not advance while a stage runs. It is also how late the count may be.
        overall.enable_steady_tick(Duration::from_millis(250));
        Self { all, overall, running: HashMap::new() }
    }
}

fn stage_style(known_length: bool) -> ProgressStyle {
    style(if known_length {
        "{spinner} {prefix}  {wide_msg} {percent:>3}%  {elapsed}, {eta} left"
    } else {
        "{spinner} {prefix}  {wide_msg} {elapsed}"
    })
}

/// How many columns the spinner, the spaces, the percentage and the times of a progress bar take.
const REST_OF_BAR: usize = 26;

/// Returns as many parts of a message, which are separated by commas, as fit on a line next to the name of the stage. A value
/// that is cut off would look like another one.
fn fitted(message: &str, instance: &str) -> String {
    let taken = REST_OF_BAR + shown_width(instance);
    let room = status_width().map_or(usize::MAX, |width| width.saturating_sub(taken));
    first_parts(message, room).to_owned()
}

fn first_parts(message: &str, room: usize) -> &str {
    let mut parts = message;
    while shown_width(parts) > room {
        match parts.rsplit_once(", ") {
            Some((first, _)) => parts = first,
            None => break,
        }
    }
    parts
}

fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Returns the lines about placed files for a terminal: all of them if they are few, and otherwise one per directory.
fn placed_lines(paths: &[String]) -> Vec<String> {
    if paths.len() <= LISTED_FILES {
        return paths.to_vec();
    }
    let mut files: BTreeMap<&str, usize> = BTreeMap::new();
    for path in paths {
        *files.entry(path.rsplit_once('/').map_or(".", |(directory, _)| directory)).or_default() += 1;
    }
    files
        .into_iter()
        .map(|(directory, count)| format!("{directory}/ ({})", text::count(count, "file")))
        .collect()
}

fn summary_line(summary: &Summary, paint: Paint) -> String {
    let mut parts = Vec::new();
    if summary.hits > 0 {
        parts.push(format!("{} cached (saved {})", summary.hits, text::duration(summary.saved)));
    }
    if summary.ran > 0 {
        parts.push(format!("{} ran", summary.ran));
    }
    if summary.failed > 0 {
        parts.push(paint.red(&format!("{} failed", summary.failed)));
    }
    if summary.skipped > 0 {
        parts.push(format!("{} skipped", summary.skipped));
    }
    if parts.is_empty() {
        parts.push("nothing to do".to_owned());
    }
    let word = match (summary.interrupted, summary.failed) {
        (true, _) => paint.yellow("interrupted:"),
        (false, 0) => paint.green("done:"),
        _ => paint.red("failed:"),
    };
    format!("{word} {} in {}", parts.join(", "), text::duration(summary.seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn many_placed_files_are_shown_by_directory() {
        let paths = |count: usize| (0..count).map(|n| format!("results/a/{n}.svg")).collect::<Vec<_>>();
        assert_eq!(placed_lines(&paths(2)), ["results/a/0.svg", "results/a/1.svg"]);
        let mut many = paths(7);
        many.push("README.txt".to_owned());
        assert_eq!(placed_lines(&many), ["./ (1 file)", "results/a/ (7 files)"]);
    }

    #[test]
    fn a_progress_message_loses_whole_parts() {
        let message = "epoch 4 of 30, macro-F1 0.0305†, loss 14.7281";
        assert_eq!(first_parts(message, 45), message);
        assert_eq!(first_parts(message, 44), "epoch 4 of 30, macro-F1 0.0305†");
        assert_eq!(first_parts(message, 5), "epoch 4 of 30");
    }

    #[test]
    fn the_summary_counts_cached_and_computed_stages() {
        let summary = Summary { hits: 8, ran: 4, saved: 200.0, seconds: 41.2, ..Summary::default() };
        let line = summary_line(&summary, Paint(false));
        assert_eq!(line, "done: 8 cached (saved 3 min 20 s), 4 ran in 41 s");
        let nothing = summary_line(&Summary::default(), Paint(false));
        assert_eq!(nothing, "done: nothing to do in 0 ms");
    }
}
