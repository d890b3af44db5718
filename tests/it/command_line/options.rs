//! The options of every command, the help texts, and completion scripts.

use super::{FITS, fits};
use crate::support::{PipelineTest, Ran, worker_program};

const COMMANDS: [&str; 27] = [
    "init",
    "run",
    "plan",
    "why",
    "status",
    "graph",
    "show",
    "table",
    "logs",
    "get",
    "metrics",
    "report",
    "runs",
    "diff",
    "predict",
    "explain",
    "lock",
    "verify",
    "export",
    "import",
    "provenance",
    "data",
    "cache",
    "schema",
    "completions",
    "shell",
    "man",
];

#[test]
fn help_is_a_result_and_lists_every_command() {
    let test = PipelineTest::empty();
    let help = test.typed("--help").ok().reports_nothing();
    for command in COMMANDS {
        assert!(help.stdout.contains(&format!("  {command} ")), "{command}: {}", help.stdout);
        let own = test.typed(&format!("{command} --help")).ok().reports_nothing();
        let own = own.prints(&format!("Usage: pipe {command}")).prints("Examples:");
        assert!(own.stdout.lines().all(|line| line.chars().count() <= 100), "{}", own.stdout);
    }
    for command in ["cache du", "cache gc", "data info", "runs show"] {
        test.typed(&format!("{command} --help")).ok().prints(&format!("Usage: pipe {command}"));
    }
}

#[test]
fn completion_scripts_ask_the_program() {
    let test = PipelineTest::empty();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        test.typed(&format!("completions {shell}")).ok().prints("PIPE_COMPLETE").reports_nothing();
    }
    test.typed("completions bosh").refuses("bash");
    test.typed("completions").exits_with(2).reports("<SHELL>");
}

#[test]
fn completion_knows_commands_pipelines_stages_instances_and_metrics() {
    let test = PipelineTest::empty();
    test.write("pipelines/fits.yaml", FITS).write("notes/x.txt", "");
    let completed = |directory: &str, line: &str| {
        let mut words = vec!["--", "pipe"];
        words.extend(line.split(' '));
        let mut command = test.command(&words);
        command.current_dir(test.file(directory)).env("PIPE_COMPLETE", "fish");
        let candidates = Ran::finish(command).ok().reports_nothing().stdout;
        candidates.lines().map(|line| line.split('\t').next().unwrap().to_owned()).collect::<Vec<_>>()
    };
    assert_eq!(completed("", "prov"), ["provenance"]);
    assert_eq!(completed("", "run pipelines/"), ["pipelines/fits.yaml"]);
    assert_eq!(completed("", "run t"), ["table"]);
    assert_eq!(completed("notes", "show fi"), ["fit"], "of the project above");
    assert_eq!(completed("", "run pipelines/fits.yaml fit[a"), ["fit[adaptive]"]);
    assert_eq!(completed("", "run --force ta"), ["table"]);
    assert!(completed("", "runs --metric macro_f").contains(&"macro_f1".to_owned()));
    test.write("pipelines/fits.yaml", "name: [");
    assert_eq!(completed("", "run t"), [""; 0], "a mistake in a pipeline is no reason to print anything");
}

#[test]
fn there_is_a_man_page_for_every_command() {
    let test = PipelineTest::empty();
    assert_eq!(test.typed("man man1").ok().reports_nothing().stdout, "man1/pipe.1\n");
    for command in COMMANDS {
        let page = test.read(&format!("man1/pipe-{command}.1"));
        assert!(page.contains("Examples:") && !page.contains('\u{1b}'), "{command}: {page}");
    }
    assert!(!test.file("man1/pipe-worker.1").exists(), "an internal command");
}

#[test]
fn the_schema_is_written_where_the_editor_comment_points() {
    let test = PipelineTest::empty();
    test.write("pipelines/fits.yaml", FITS);
    test.typed("schema --write").refuses("# yaml-language-server: $schema=pipe.schema.json");
    test.typed("init pipelines/new.yaml").ok();
    test.typed("schema --write").ok().prints("pipelines/pipe.schema.json");
    test.remove("pipelines/new.yaml");
    test.write("pipelines/fits.yaml", format!("# yaml-language-server: $schema=../s.json\n{FITS}"));
    for _ in 0..2 {
        test.typed("schema --write").ok().prints("s.json");
        assert_eq!(test.read("s.json"), test.typed("schema").ok().stdout);
    }
    test.write("s.json", "{}").typed("schema --write").refuses("is not a schema of `pipe`");
    assert_eq!(test.read("s.json"), "{}");
    test.typed("schema pipelines/fits.yaml").refuses("--write");
}

#[test]
fn the_project_directory_can_be_named() {
    let test = fits();
    test.write("other/pipeline.yaml", FITS);
    test.typed("-C other run pipeline.yaml").ok().prints("results/fits/table.txt");
    assert!(test.file("other/results/fits/table.txt").exists());
    test.typed("status --directory other").ok().prints("fresh");
    test.typed("status -C nowhere").refuses("nowhere");
}

#[test]
fn the_cache_directory_can_be_named_on_the_command_line_and_in_the_environment() {
    let test = PipelineTest::new(FITS);
    test.typed("run pipeline.yaml --cache-dir here").ok();
    assert!(test.file("here").is_dir() && !test.file("cache").exists());
    test.typed("plan pipeline.yaml --check").exits_with(10);
    let mut plan = test.command(&["plan", "pipeline.yaml", "--check"]);
    plan.env("PIPE_CACHE", "here");
    Ran::finish(plan).ok();
    let mut plan = test.command(&["plan", "pipeline.yaml", "--check", "--cache-dir", "elsewhere"]);
    plan.env("PIPE_CACHE", "here");
    Ran::finish(plan).exits_with(10);
}

#[test]
fn the_environment_does_not_show_in_usage_lines() {
    let test = PipelineTest::new(FITS);
    let mut why = test.command(&["why"]);
    why.env("PIPE_DATA_DIR", "elsewhere");
    let ran = Ran::finish(why).exits_with(2).reports("Usage: pipe why");
    assert!(!ran.stderr.contains("--data-dir"), "{}", ran.stderr);
    let mut path = test.command(&["data", "path", "bibtex"]);
    path.env("PIPE_DATA_DIR", "elsewhere");
    Ran::finish(path).exits_with(2).reports("is not in elsewhere");
}

#[test]
fn colour_is_used_only_on_request_or_on_a_terminal() {
    let test = fits();
    let escape = '\u{1b}';
    for line in ["show table", "why table", "verify pipeline.yaml", "diff latest latest"] {
        let plain = test.typed(line);
        assert!(!plain.stdout.contains(escape) && !plain.stderr.contains(escape), "{line}: {}", plain.stdout);
    }
    assert!(test.typed("show table --color always").ok().stdout.contains(escape));
    assert!(!test.typed("show table --color never").ok().stdout.contains(escape));
    test.typed("show table --color perhaps").refuses("always");
}

#[test]
fn quiet_and_verbose_change_the_status_only() {
    let test = PipelineTest::new(FITS);
    test.typed("run pipeline.yaml -q").ok().reports_nothing();
    test.typed("run pipeline.yaml").ok().reports("done: 3 cached").prints("results/fits/table.txt\n");
    let verbose = test.typed("run pipeline.yaml -v").ok().reports("cached").reports("fit[static]");
    assert_eq!(verbose.stdout, "results/fits/table.txt\n");
    test.typed("run pipeline.yaml -q -v").refuses("--verbose");
    test.typed("lock pipeline.yaml -q").ok().reports_nothing().prints_nothing();
}

#[test]
fn a_pipeline_is_named_in_the_same_ways_everywhere() {
    let test = PipelineTest::new(FITS);
    test.typed("run").refuses("pipeline");
    test.typed("run -f pipeline.yaml fit[static]").ok();
    test.typed("run table").ok();
    for (command, stage) in
        [("plan", ""), ("status", ""), ("graph", ""), ("why", "table"), ("show", "table"), ("logs", "table")]
    {
        test.typed(&format!("{command} {stage}")).ok();
        test.typed(&format!("{command} {stage} -f pipeline.yaml")).ok();
        test.typed(&format!("{command} --file pipeline.yaml {stage}")).ok();
        test.typed(&format!("{command} pipeline.yaml {stage}")).ok();
    }
    for command in ["lock", "verify", "export -o x.tar.zst", "provenance --ro-crate x"] {
        test.typed(&format!("{command} -f pipeline.yaml")).ok();
    }
}

#[test]
fn the_version_names_both_programs() {
    let test = PipelineTest::empty();
    test.typed("--version").ok().prints("pipe 0.").prints("pipe-worker").reports_nothing();
    test.typed("-V").ok().prints("pipe 0.");
}

#[test]
fn the_version_of_libtorch_is_that_of_the_worker() {
    worker_program();
    PipelineTest::empty().typed("--version").ok().prints("libtorch 2.13");
}
