//! What is computed again and what is cached.

use crate::support::PipelineTest;

/// Two stages; the first removes comments, so that many edits give the same bytes.
const STRIP_AND_COUNT: &str = "
name: cutoff
stages:
  strip:
    command:
      run: grep -v '^#' in/text > plain.txt
      inputs: { text: { file: text.txt } }
      outputs: [plain.txt]
  count:
    command:
      run: wc -l < in/plain > lines.txt
      inputs: { plain: strip }
      outputs: [lines.txt]
";

fn strip_and_count() -> PipelineTest {
    let test = PipelineTest::new(STRIP_AND_COUNT);
    test.write("text.txt", "# a comment\none\ntwo\n");
    test
}

#[test]
fn a_second_run_computes_nothing() {
    let test = strip_and_count();
    assert_eq!(test.run().ok().computed(), ["count", "strip"]);
    let second = test.run().ok();
    assert_eq!(second.computed(), [""; 0]);
    assert_eq!(second.instances("hit"), ["strip", "count"]);
}

#[test]
fn a_stage_is_not_run_again_if_its_inputs_have_the_same_bytes() {
    let test = strip_and_count();
    test.run().ok();
    test.write("text.txt", "# another comment\none\ntwo\n");
    let rerun = test.run().ok();
    assert_eq!(rerun.computed(), ["strip"]);
    assert_eq!(rerun.instances("hit"), ["count"]);
}

#[test]
fn going_back_to_an_earlier_state_is_cached() {
    let test = strip_and_count();
    test.run().ok();
    test.write("text.txt", "three\n");
    assert_eq!(test.run().ok().computed(), ["count", "strip"]);
    test.write("text.txt", "# a comment\none\ntwo\n");
    assert_eq!(test.run().ok().computed(), [""; 0]);
}

/// The pipeline in which one key part is changed at a time.
const ONE_STAGE: &str = "
name: keys
vars: { word: hello, times: 1.0e-4 }
stages:
  say:
    command:
      run: echo ${vars.word} ${vars.times} $GREETING > said.txt; cat in/note >> said.txt
      inputs: { note: { file: note.txt } }
      outputs: { said: said.txt }
      env: [GREETING]
";

fn key_of(yaml: &str, note: &str, greeting: &str, args: &[&str]) -> String {
    let test = PipelineTest::new(yaml);
    test.write("note.txt", note).write("other/note.txt", note);
    let args = [&["run", "pipeline.yaml", "--json"], args].concat();
    let output = test.command(&args).env("GREETING", greeting).output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert!(output.status.success(), "{stdout}{}", String::from_utf8_lossy(&output.stderr));
    let done = stdout.lines().find(|line| line.contains("\"done\"")).expect(&stdout);
    let event: serde_json::Value = serde_json::from_str(done).unwrap();
    event["key"].as_str().unwrap().to_owned()
}

/// The key after replacing pieces of the YAML.
fn edited(edits: &[(&str, &str)]) -> String {
    let yaml = edits.iter().fold(ONE_STAGE.to_owned(), |yaml, (from, to)| {
        assert!(yaml.contains(from), "{from}");
        yaml.replace(from, to)
    });
    key_of(&yaml, "note", "hi", &[])
}

#[test]
fn every_key_part_changes_the_key() {
    let base = key_of(ONE_STAGE, "note", "hi", &[]);
    let changed = [
        ("the command", edited(&[("echo", "printf '%s\\n'")])),
        ("a variable", edited(&[("word: hello", "word: bye")])),
        ("an output's path", edited(&[("said.txt", "out.txt")])),
        ("an output's name", edited(&[("{ said:", "{ spoken:")])),
        ("an input's name", edited(&[("{ note:", "{ memo:"), ("in/note", "in/memo")])),
        ("the content of an input", key_of(ONE_STAGE, "another note", "hi", &[])),
        ("an allowed environment variable", key_of(ONE_STAGE, "note", "hello", &[])),
        ("a variable from the command line", key_of(ONE_STAGE, "note", "hi", &["--set", "vars.word=bye"])),
        ("the allow-list itself", edited(&[("env: [GREETING]", "env: [GREETING, USER_NAME]")])),
    ];
    for (what, key) in changed {
        assert_ne!(key, base, "{what} does not reach the key");
    }
}

#[test]
fn irrelevant_changes_do_not_change_the_key() {
    let base = key_of(ONE_STAGE, "note", "hi", &[]);
    let reordered = "
stages:
  say: # a comment
    command:
      env: [GREETING]
      outputs: { said: ./said.txt }
      inputs: { note: { file: note.txt } }
      run: echo ${vars.word} ${vars.times} $GREETING > said.txt; cat in/note >> said.txt
vars: { times: 0.0001, word: hello }
name: keys
";
    let same = [
        (
            "the order of keys, comments and another way to write a number",
            key_of(reordered, "note", "hi", &[]),
        ),
        ("the number of jobs", key_of(ONE_STAGE, "note", "hi", &["--jobs", "1"])),
        ("the name of the stage", edited(&[("  say:", "  speak:")])),
        ("the name of the pipeline", edited(&[("name: keys", "name: other")])),
        ("the path of an input", edited(&[("file: note.txt", "file: other/note.txt")])),
        ("an unused variable", edited(&[("vars: {", "vars: { unused: 1,")])),
        ("resources", edited(&[("  say:", "  say:\n    resources: { cpu: 2 }")])),
    ];
    for (what, key) in same {
        assert_eq!(key, base, "{what} reaches the key");
    }
}

#[test]
fn a_forced_stage_with_equal_bytes_does_not_force_the_others() {
    let test = strip_and_count();
    test.run().ok();
    let forced = test.run_with(&["--force", "strip"]).ok();
    assert_eq!(forced.computed(), ["strip"]);
}

#[test]
fn a_target_runs_only_what_it_needs() {
    let test = strip_and_count();
    assert_eq!(test.run_with(&["strip"]).ok().computed(), ["strip"]);
    assert_eq!(test.run_with(&["--until", "count"]).ok().computed(), ["count"]);
}

#[test]
fn an_input_that_is_edited_while_a_stage_runs_is_an_error() {
    let test = PipelineTest::new(
        "
name: racy
stages:
  read:
    command:
      run: cat in/text > copy.txt; echo edited >> \"$PROJECT/text.txt\"
      inputs: { text: { file: text.txt } }
      outputs: [copy.txt]
      env: [PROJECT]
",
    );
    test.write("text.txt", "original\n");
    let run = || {
        let output = test.command(&["run", "pipeline.yaml"]).env("PROJECT", test.path()).output().unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    };
    let (code, stderr) = run();
    assert_eq!(code, Some(1), "{stderr}");
    assert!(stderr.contains("text.txt"), "{stderr}");
    let (code, stderr) = run();
    assert_eq!(code, Some(1), "nothing was recorded, so it runs again: {stderr}");
}

#[test]
fn a_stage_can_take_every_instance_of_another() {
    let test = PipelineTest::new(
        "
name: grid
stages:
  part:
    matrix: { variant: [adaptive, static], seed: [0, 1] }
    command: { run: \"echo ${matrix.variant} ${matrix.seed} > part.txt\", outputs: [part.txt] }
  copy:
    each: part
    command: { run: cp in/part copy.txt, inputs: { part: \"${each}\" }, outputs: [copy.txt] }
  all:
    command: { run: \"ls in/parts > names.txt; cat in/parts/* > all.txt\", inputs: { parts: [\"copy[*]\"] }, outputs: [names.txt, all.txt] }
outputs: { all.txt: all.all }
",
    );
    let ran = test.run().ok();
    assert_eq!(ran.computed().len(), 9);
    let text = test.read("results/grid/all.txt");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort();
    assert_eq!(lines, ["adaptive 0", "adaptive 1", "static 0", "static 1"]);
    let one = test.run_with(&["--force", "part[static,seed=1]", "part[static,seed=1]"]).ok();
    assert_eq!(one.computed(), ["part[static,seed=1]"]);
}

#[test]
fn a_stage_that_changes_its_stored_input_and_restores_it_is_not_recorded() {
    let test = PipelineTest::new(
        "
name: restored
stages:
  a: { command: { run: echo right > a.txt, outputs: [a.txt] } }
  b:
    command:
      run: |
        cp -p in/a kept; chmod u+w in/a
        echo wrong > in/a; cp in/a b.txt
        cat kept > in/a; touch -r kept in/a; chmod u-w in/a
      inputs: { a: a }
      outputs: [b.txt]
",
    );
    test.run().exits_with(1).says("was changed while it ran");
    test.run().exits_with(1);
}

#[test]
fn a_secret_in_the_environment_is_in_no_file_of_pipe() {
    let test = PipelineTest::new(
        "
name: secret
stages:
  a: { command: { run: echo a > a.txt, outputs: [a.txt], env: [TOKEN] } }
outputs: [a]
",
    );
    for arguments in [&["run", "pipeline.yaml"][..], &["lock", "pipeline.yaml"], &["why", "a"]] {
        let output = test.command(arguments).env("TOKEN", "correct-horse").output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        assert!(!String::from_utf8_lossy(&output.stdout).contains("correct-horse"));
    }
    assert!(test.read("pipeline.lock").contains("env.TOKEN"));
    for (name, content) in test.files_below("") {
        assert!(!String::from_utf8_lossy(&content).contains("correct-horse"), "{}", name.display());
    }
    let plan = test.command(&["plan", "--json"]).env("TOKEN", "battery-staple").output().unwrap();
    let plan = String::from_utf8_lossy(&plan.stdout).into_owned();
    assert!(plan.contains("env.TOKEN") && !plan.contains("battery-staple"), "{plan}");
}

#[test]
fn making_an_input_executable_runs_its_command_again() {
    let test = PipelineTest::new(
        "
name: executable
stages:
  a: { command: { run: \"if [ -x in/tool ]; then echo yes; else echo no; fi > a.txt\", inputs: { tool: { file: tool.sh } }, outputs: [a.txt] } }
outputs: [a]
",
    );
    test.write("tool.sh", "echo tool");
    test.run().ok();
    assert_eq!(test.read("results/executable/a.txt"), "no\n");
    let executable = <std::fs::Permissions as std::os::unix::fs::PermissionsExt>::from_mode(0o755);
    std::fs::set_permissions(test.file("tool.sh"), executable).unwrap();
    test.run().ok();
    assert_eq!(test.read("results/executable/a.txt"), "yes\n");
    test.typed("lock pipeline.yaml").ok();
    test.typed("verify pipeline.yaml").ok();
}

#[test]
fn bash_notices_a_failure_on_the_left_of_a_pipe() {
    let test = PipelineTest::new(
        "
name: shells
stages:
  a: { command: { run: \"false | cat > a.txt\", shell: bash, outputs: [a.txt] } }
",
    );
    test.run().exits_with(1);
    test.edit("pipeline.yaml", "shell: bash", "shell: sh");
    test.run().ok();
}
