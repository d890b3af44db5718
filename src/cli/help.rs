//! The parts of `--help` that clap does not get from `args`: groups of commands, and examples of each.

use std::fmt::Write as _;

use clap::{Command, CommandFactory};

use super::args::Cli;

const TEMPLATE: &str = "{about-with-newline}\n{usage-heading} {usage}{after-help}\n\n\u{1b}[1m\u{1b}[4mOptions:\u{1b}[0m\n{options}";

/// A heading, and its commands with their examples.
type Group = (&'static str, &'static [(&'static str, &'static [&'static str])]);

const GROUPS: &[Group] = &[
    (
        "Compute",
        &[
            ("init", &["pipe init --data packages.csv", "pipe init pipelines/mine.yaml --command"]),
            (
                "run",
                &[
                    "pipe run pipelines/quickstart.yaml",
                    "pipe run pipelines/quickstart.yaml 'train[adaptive]' --set vars.epochs=3",
                    "pipe run table1",
                    "pipe run fit --try",
                    "pipe run pipelines/quickstart.yaml --engine slurm",
                ],
            ),
            ("shell", &["pipe shell 'fit[seed=0]'"]),
            ("plan", &["pipe plan pipelines/quickstart.yaml", "pipe plan --check"]),
            ("why", &["pipe why 'train[adaptive,seed=0]'", "pipe why pipelines/quickstart.yaml table1"]),
            ("status", &["pipe status pipelines/quickstart.yaml"]),
            ("graph", &["pipe graph pipelines/quickstart.yaml", "pipe graph --format mermaid"]),
        ],
    ),
    (
        "Look at results",
        &[
            ("show", &["pipe show 'eval[adaptive,seed=0]'"]),
            (
                "table",
                &[
                    "pipe table table1",
                    "pipe table --run latest",
                    "pipe table pipelines/quickstart.yaml table1 --format tex",
                ],
            ),
            ("labels", &["pipe labels 'eval[macro]'", "pipe labels 'eval[macro]' --top 20"]),
            ("logs", &["pipe logs 'train[adaptive,seed=0]'"]),
            ("get", &["pipe get table1.tex", "pipe get 'train[adaptive,seed=0].model' --to model/"]),
            ("whence", &["pipe whence results/quickstart/table1.tex"]),
            ("metrics", &["pipe metrics macro_f1", "pipe metrics precision"]),
            ("report", &["pipe report pipelines/quickstart.yaml -o report.html"]),
            ("runs", &["pipe runs -n 5", "pipe runs show latest~1"]),
            ("diff", &["pipe diff", "pipe diff HEAD~1:pipelines/quickstart.lock pipelines/quickstart.lock"]),
        ],
    ),
    (
        "Use a model",
        &[
            (
                "predict",
                &[
                    "pipe predict 'recipe[seed=0]' new.svm --feature-base 1 > labels.jsonl",
                    "pipe predict 'recipe[seed=0]' reports.csv --format csv --top 5 -o labels.csv",
                    "pipe predict 'recipe[macro]' new.csv --id-column package --format labels > labels.csv",
                ],
            ),
            ("explain", &["pipe explain 'train[adaptive,seed=0]' --row 12 --signal train-neighbours"]),
            (
                "serve",
                &["pipe serve 'recipe[macro]'", "pipe serve model/ --listen 0.0.0.0:8000 --token-file token"],
            ),
            ("model", &["pipe model export 'recipe[macro]' model/"]),
        ],
    ),
    (
        "Reproduce and share",
        &[
            ("lock", &["pipe lock pipelines/quickstart.yaml"]),
            (
                "verify",
                &[
                    "pipe verify pipelines/quickstart.yaml",
                    "pipe verify -f pipelines/quickstart.yaml --rerun sample=3",
                ],
            ),
            ("export", &["pipe export pipelines/quickstart.yaml -o quickstart.tar.zst"]),
            ("import", &["pipe import quickstart.tar.zst"]),
            ("provenance", &["pipe provenance pipelines/quickstart.yaml --ro-crate crate.zip"]),
        ],
    ),
    (
        "Use a cluster",
        &[
            ("engine", &["pipe engine init slurm"]),
            ("jobs", &["pipe jobs", "pipe jobs --json"]),
            ("cancel", &["pipe cancel", "pipe cancel 'train[adaptive,seed=0]'"]),
        ],
    ),
    (
        "Data, cache and editors",
        &[
            ("data", &["pipe data info bibtex", "pipe data fetch bibtex"]),
            ("cache", &["pipe cache du", "pipe cache gc --yes", "pipe cache pull pipelines/quickstart.yaml"]),
            ("key", &["pipe key new alice", "pipe key show"]),
            ("torch", &["pipe torch", "pipe torch fetch"]),
            ("schema", &["pipe schema > pipe.schema.json", "pipe schema --write"]),
            ("man", &["pipe man ~/.local/share/man/man1"]),
            ("completions", &["pipe completions bash > ~/.local/share/bash-completion/completions/pipe"]),
        ],
    ),
];

/// Returns the command line with its help.
pub(super) fn command() -> Command {
    let command = described(
        |heading| format!("\u{1b}[1m\u{1b}[4m{heading}:\u{1b}[0m"),
        |name| format!("\u{1b}[1m{name}\u{1b}[0m"),
    );
    command.help_template(TEMPLATE)
}

/// Returns the command line with its help as plain text.
pub(super) fn plain_command() -> Command {
    described(|heading| format!("{heading}:"), str::to_owned)
}

fn described(heading_text: fn(&str) -> String, name_text: fn(&str) -> String) -> Command {
    let mut command = Cli::command();
    let mut listing = String::new();
    for (heading, members) in GROUPS {
        let _ = writeln!(listing, "{}", heading_text(heading));
        for (name, examples) in *members {
            let about = command.find_subcommand(name).and_then(Command::get_about);
            let about = about.map(ToString::to_string).unwrap_or_default();
            let _ = writeln!(listing, "  {} {about}", name_text(&format!("{name:<12}")));
            let lines: String = examples.iter().map(|example| format!("\n  {example}")).collect();
            let examples = format!("{}{lines}", heading_text("Examples"));
            command = command.mut_subcommand(name, |command| command.after_help(examples));
        }
        listing.push('\n');
    }
    listing.push_str("`pipe COMMAND --help` shows the options of a command, with examples.");
    command.after_help(listing)
}

#[cfg(test)]
mod tests {
    use clap::{FromArgMatches, ValueHint};

    use super::*;

    /// Returns every command that a user sees, with its full name: `runs show`.
    fn commands() -> Vec<(String, Command)> {
        let mut all = vec![(String::new(), command())];
        let mut at = 0;
        while let Some((name, command)) = all.get(at).cloned() {
            let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
            all.extend(visible.map(|inner| {
                (format!("{name} {}", inner.get_name()).trim_start().to_owned(), inner.clone())
            }));
            at += 1;
        }
        all
    }

    #[test]
    fn clap_accepts_the_definition_of_the_command_line() {
        command().debug_assert();
    }

    #[test]
    fn every_command_is_in_one_group_and_its_examples_parse() {
        let mut listed: Vec<&str> =
            GROUPS.iter().flat_map(|(_, members)| members.iter().map(|(name, _)| *name)).collect();
        let command = command();
        let visible = command.get_subcommands().filter(|command| !command.is_hide_set());
        let mut known: Vec<&str> = visible.map(Command::get_name).collect();
        listed.sort_unstable();
        known.sort_unstable();
        assert_eq!(listed, known);
        for example in GROUPS.iter().flat_map(|(_, members)| members.iter().flat_map(|(_, all)| *all)) {
            let typed = example.split(" > ").next().unwrap_or_default().replace('\'', "");
            let read = command.clone().try_get_matches_from(typed.split(' '));
            assert!(read.is_ok(), "{example}: {}", read.unwrap_err());
        }
    }

    /// Returns the words of a command in a shell, up to a comment or a redirection.
    fn words(line: &str) -> Vec<String> {
        let end = [" #", " > ", " < ", " | ", " && "].iter().filter_map(|end| line.find(end)).min();
        line[..end.unwrap_or(line.len())]
            .split_whitespace()
            .map(|word| word.replace(['\'', '"'], ""))
            .collect()
    }

    #[test]
    fn every_command_in_the_documentation_parses() {
        let docs = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
        let mut found = 0;
        for entry in std::fs::read_dir(docs).unwrap() {
            let path = entry.unwrap().path();
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            // Not the first lines of files: `pipe lock 2`.
            let is_header =
                |line: &str| line.split(' ').nth(2).is_some_and(|word| word.parse::<u32>().is_ok());
            let is_command = |line: &&str| line.starts_with("pipe ") && !is_header(line);
            for line in text.lines().map(str::trim_start).filter(is_command) {
                let read = command().try_get_matches_from(words(line));
                assert!(read.is_ok(), "{}: {line}: {}", path.display(), read.unwrap_err());
                found += 1;
            }
        }
        assert!(found > 30, "{found}");
    }

    /// Adds each option that takes a path to the first example of its command.
    #[test]
    fn every_path_option_is_among_the_typed_paths() {
        for (name, examples) in GROUPS.iter().flat_map(|(_, members)| *members) {
            let all = command();
            for option in all.find_subcommand(name).unwrap().get_arguments() {
                let hint = option.get_value_hint();
                let is_path = matches!(hint, ValueHint::FilePath | ValueHint::DirPath | ValueHint::AnyPath);
                let Some(long) = option.get_long().filter(|_| is_path && !option.is_global_set()) else {
                    continue;
                };
                let example = examples[0].split(" > ").next().unwrap().replace('\'', "");
                let mut words: Vec<String> = example.split(' ').map(str::to_owned).collect();
                let (long, short) =
                    (format!("--{long}"), option.get_short().map(|short| format!("-{short}")));
                if let Some(at) = words.iter().position(|word| *word == long || Some(word) == short.as_ref())
                {
                    words.drain(at..at + 2);
                }
                if long == "--file" || long == "--merge" {
                    words.retain(|word| !word.ends_with(".yaml"));
                }
                words.push(long);
                let values = option.get_num_args().map_or(1, |range| range.min_values().max(1));
                words.extend(vec!["a/b".to_owned(); values]);
                let matches =
                    all.clone().try_get_matches_from(&words).unwrap_or_else(|error| panic!("{error}"));
                let mut read = Cli::from_arg_matches(&matches).unwrap().command.unwrap();
                let paths = read.typed_paths();
                assert!(paths.iter().any(|path| path.ends_with("a/b")), "{words:?}: {paths:?}");
            }
        }
    }

    #[test]
    fn every_argument_has_help() {
        for (name, command) in commands() {
            for argument in command.get_arguments() {
                assert!(argument.get_help().is_some(), "`pipe {name}`: `{}`", argument.get_id());
            }
        }
    }

    /// Options that several commands share are described once, all others in the row of their command.
    #[test]
    fn every_command_and_option_is_in_the_manual() {
        const SHARED: [&str; 11] = [
            "directory",
            "cache-dir",
            "data-dir",
            "color",
            "quiet",
            "verbose",
            "help",
            "file",
            "set",
            "run",
            "json",
        ];
        let manual = include_str!("../../docs/commands.md");
        let written = |option: &str, text: &str| {
            let after = |at: usize| text[at + option.len() + 2..].chars().next();
            text.match_indices(&format!("--{option}"))
                .any(|(at, _)| after(at).is_none_or(|next| !next.is_ascii_alphanumeric() && next != '-'))
        };
        for (name, command) in commands().into_iter().skip(1) {
            let row =
                manual.lines().find(|line| line.starts_with('|') && line.contains(&format!("`pipe {name}")));
            let row = row.unwrap_or_else(|| panic!("docs/commands.md has no row for `pipe {name}`"));
            for option in command.get_arguments().filter_map(|argument| argument.get_long()) {
                let place = if SHARED.contains(&option) { manual } else { row };
                assert!(written(option, place), "docs/commands.md: `pipe {name} --{option}`");
            }
        }
    }
}
