//! Interprets the words of a command: `[FILE] [STAGE]...`, where both may be left out, and `-f FILE` may appear anywhere.

use std::path::{Path, PathBuf};

use super::args::PipelineArgs;
use super::exit::Failure;
use super::project::pipeline_files;
use pipe_core::suggest;

/// The pipeline file and the stages that a command names.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct PipelineSelection {
    /// `None`: the pipeline that was run last, or the only one.
    pub file: Option<PathBuf>,
    /// Empty: all stages.
    pub stages: Vec<String>,
}

impl PipelineSelection {
    /// Selects all of a pipeline.
    pub(super) fn of_file(file: &Path) -> Self {
        Self { file: Some(file.to_owned()), stages: Vec::new() }
    }

    /// Reads `[FILE] [STAGE]...`: the first word is a file if it looks like one or exists, and otherwise a stage.
    pub(super) fn stages(
        pipeline: &PipelineArgs,
        first: Option<&PathBuf>,
        rest: &[String],
    ) -> Result<Self, Failure> {
        let named = pipeline.named.clone();
        let (file, first) = match (named, first) {
            (Some(named), Some(first)) if looks_like_a_file(first) => return Err(named_twice(&named, first)),
            (None, Some(first)) if is_file(first) => (Some(first.clone()), None),
            (named, first) => (named, first.map(|word| word.to_string_lossy().into_owned())),
        };
        Ok(Self { file, stages: first.into_iter().chain(rest.iter().cloned()).collect() })
    }

    /// Reads `[FILE] STAGE`, for commands that need a stage.
    pub(super) fn stage(
        pipeline: &PipelineArgs,
        file: Option<&PathBuf>,
        stage: &str,
    ) -> Result<Self, Failure> {
        if let (Some(named), Some(file)) = (&pipeline.named, file) {
            return Err(named_twice(named, file));
        }
        // A file with the name of a stage's output may exist: `pipe get table1.tex > table1.tex` writes one.
        if file.is_none() && looks_like_a_file(Path::new(stage)) {
            return Err(Failure::bad_input(format!("`{stage}` is a file; name the stage after it")));
        }
        let file = pipeline.named.as_ref().or(file).cloned();
        Ok(Self { file, stages: vec![stage.to_owned()] })
    }

    /// Reads `[FILE]`, for commands that concern a whole pipeline.
    pub(super) fn file(pipeline: &PipelineArgs, file: Option<&PathBuf>) -> Result<Self, Failure> {
        match (&pipeline.named, file) {
            (Some(named), Some(file)) => Err(named_twice(named, file)),
            (None, Some(word)) if !is_file(word) => {
                let shown = word.display();
                Err(Failure::bad_input(match pipeline_called(&word.to_string_lossy()) {
                    Some(file) => format!("there is no file `{shown}`; did you mean `{}`?", file.display()),
                    None => format!(
                        "there is no file `{shown}`, and this command takes no stage; `pipe show {shown}` shows one"
                    ),
                }))
            }
            (named, file) => Ok(Self { file: named.as_ref().or(file).cloned(), stages: Vec::new() }),
        }
    }
}

fn named_twice(named: &Path, file: &Path) -> Failure {
    let (named, file) = (named.display(), file.display());
    Failure::bad_input(format!("the pipeline is named twice: `-f {named}` and `{file}`"))
}

/// Returns the file in `pipelines/` that a word names without its directory and ending: `quickstart`. It may be misspelt.
pub(super) fn pipeline_called(word: &str) -> Option<PathBuf> {
    let mut files = pipeline_files();
    files.sort();
    let stems: Vec<&str> = files.iter().map(|file| file.file_stem()?.to_str()).collect::<Option<_>>()?;
    let found = suggest::closest(word, stems.iter().copied())?;
    files.iter().find(|file| file.file_stem().is_some_and(|stem| stem == found)).cloned()
}

/// Returns true for a file that exists, and for a word that can only be a file.
pub(super) fn is_file(word: &Path) -> bool {
    word.is_file() || looks_like_a_file(word)
}

/// Returns true for words that cannot name a stage: those with a slash, `.yaml` or `.yml`.
fn looks_like_a_file(word: &Path) -> bool {
    let text = word.to_string_lossy();
    let name = text.split('[').next().unwrap_or_default();
    name.contains('/') || text.ends_with(".yaml") || text.ends_with(".yml")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pipeline(named: Option<&str>) -> PipelineArgs {
        PipelineArgs { named: named.map(PathBuf::from), set: Vec::new(), run: None }
    }

    fn stages(named: Option<&str>, words: &[&str]) -> Result<(Option<String>, String), String> {
        let first = words.first().map(PathBuf::from);
        let rest: Vec<String> = words.iter().skip(1).map(|word| (*word).to_owned()).collect();
        let selection = PipelineSelection::stages(&pipeline(named), first.as_ref(), &rest)
            .map_err(|failure| failure.text)?;
        Ok((selection.file.map(|file| file.display().to_string()), selection.stages.join(" ")))
    }

    #[test]
    fn the_first_word_is_a_file_if_it_exists_or_looks_like_one() {
        let some = |file: &str, stages: &str| Ok((Some(file.to_owned()), stages.to_owned()));
        assert_eq!(stages(None, &["p/x.yaml", "train"]), some("p/x.yaml", "train"));
        assert_eq!(stages(None, &["missing.yml"]), some("missing.yml", ""));
        assert_eq!(stages(None, &["Cargo.toml"]), some("Cargo.toml", ""), "it exists");
        assert_eq!(
            stages(None, &["train[path=a/b.yaml]", "eval"]),
            Ok((None, "train[path=a/b.yaml] eval".to_owned()))
        );
        assert_eq!(stages(None, &[]), Ok((None, String::new())));
        assert_eq!(stages(Some("x.yaml"), &["train", "eval"]), some("x.yaml", "train eval"));
        assert!(stages(Some("x.yaml"), &["y.yaml"]).unwrap_err().contains("named twice"));
        assert_eq!(stages(Some("x.yaml"), &["Cargo.toml"]), some("x.yaml", "Cargo.toml"), "-f decides");
    }

    #[test]
    fn a_word_that_a_command_cannot_use_is_reported() {
        let file = |word: &str| PipelineSelection::file(&pipeline(None), Some(&PathBuf::from(word)));
        assert!(file("table1").unwrap_err().text.contains("`pipe show table1`"));
        assert_eq!(file("x.yaml").unwrap().file, Some(PathBuf::from("x.yaml")));
        let stage = PipelineSelection::stage(&pipeline(None), None, "x.yaml").unwrap_err().text;
        assert!(stage.contains("name the stage after it"), "{stage}");
        let of_that_name = PipelineSelection::stage(&pipeline(None), None, "Cargo.toml").unwrap();
        assert_eq!(of_that_name.stages, ["Cargo.toml"], "an output that was printed into a file of its name");
    }
}
