//! Holds the sources to the tables of `docs/architecture.md`: which layer may import which, and
//! which layers may use which crates. What stands under `#[cfg(test)]` is free.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use proc_macro2::{Delimiter, Group, TokenStream, TokenTree};

/// Macros that write to the terminal.
const PRINTING: [&str; 5] = ["print", "println", "eprint", "eprintln", "dbg"];
const PRINTING_LAYERS: [&str; 2] = ["main", "cli"];

#[test]
fn the_layers_import_only_what_the_architecture_allows() {
    let rules = Rules::read(&in_repository("docs/architecture.md"));
    let offences = rules.offences(&sources());
    assert!(offences.is_empty(), "\n{}\n", offences.join("\n"));
}

#[test]
fn a_forbidden_import_is_named_with_its_file_and_line() {
    let rules =
        Rules::parse("| layer | may import |\n|-|-|\n| `plan` | `spec::kind` |\n| `spec` | |\n| `cli` | |");
    let offences = |text: &str| rules.offences(&[Source::parse("src/plan/key.rs", text)]);
    let forbidden =
        |what: &str, line: usize| vec![format!("src/plan/key.rs:{line}: `plan` must not import `{what}`")];

    assert_eq!(offences("use std::fmt;\n\nuse crate::cli::Console;"), forbidden("cli::Console", 3));
    assert_eq!(
        offences("use crate::{\n  spec::kind::Kind,\n  spec::load as l,\n};"),
        forbidden("spec::load", 3)
    );
    assert_eq!(offences("fn f() { super::super::cli::show::<u8>() }"), forbidden("cli::show", 1));
    assert_eq!(offences("mod inner { use super::super::super::cli::A; }"), forbidden("cli::A", 1));
    assert_eq!(offences("use crate::spec;"), forbidden("spec", 1));

    for allowed in [
        "use crate::spec::kind::{self, Kind};",
        "use super::graph; use self::x; pub(crate) fn f() {}",
        "// crate::cli\n/* crate::cli */ const A: &str = \"crate::cli::A\"; const B: &str = r#\"crate::cli::B\"#;",
        "#[cfg(test)]\nmod tests { use crate::cli::Console; }",
        "#[cfg(test)] use crate::cli::Console;\nfn f() {}",
    ] {
        assert_eq!(offences(allowed), Vec::<String>::new(), "{allowed}");
    }
}

#[test]
fn printing_and_misplaced_crates_are_named_too() {
    let rules = Rules::parse(
        "| layer | may import |\n|-|-|\n| `plan` | |\n\n| crate | only in |\n|-|-|\n| `tch` | `ml` |",
    );
    let source = Source::parse("src/plan/key.rs", "use tch::Tensor;\nfn f() { if x { println!(\"a\") } }");
    assert_eq!(
        rules.offences(&[source]),
        [
            "src/plan/key.rs:1: the crate `tch` is for `ml` only",
            "src/plan/key.rs:2: `println!` outside of main and cli: send an event or return a value",
        ]
    );
}

#[test]
fn a_layer_that_the_architecture_does_not_know_is_an_offence() {
    let rules = Rules::parse("| layer | may import |\n|-|-|\n| `plan` | |");
    let offences = rules.offences(&[Source::parse("src/helpers.rs", "")]);
    assert_eq!(offences, ["src/helpers.rs: `helpers` is no layer of docs/architecture.md"]);
}

#[test]
fn only_the_worker_loads_libtorch() {
    let libraries = |program: &str| {
        let ldd = Command::new("ldd").arg(program).output().expect("ldd comes with the C library");
        String::from_utf8(ldd.stdout).unwrap()
    };
    let pipe = libraries(env!("CARGO_BIN_EXE_pipe"));
    assert!(pipe.contains("libc.so"), "{pipe}");
    assert!(!pipe.contains("torch") && !pipe.contains("c10"), "pipe must start without libtorch:\n{pipe}");
    let worker = libraries(crate::support::worker_program().to_str().unwrap());
    assert!(worker.contains("libtorch_cpu.so => /"), "pipe-worker must find libtorch:\n{worker}");
}

fn in_repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(path)
}

fn sources() -> Vec<Source> {
    let mut files = Vec::new();
    let mut folders = vec![in_repository("src")];
    while let Some(folder) = folders.pop() {
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|extension| extension == "rs") {
                files.push(path);
            }
        }
    }
    files.sort();
    assert!(files.len() > 10, "the sources are elsewhere");
    let parse = |file: &PathBuf| {
        let name = file.strip_prefix(env!("CARGO_MANIFEST_DIR")).unwrap().to_str().unwrap();
        Source::parse(name, &std::fs::read_to_string(file).unwrap())
    };
    files.iter().map(parse).collect()
}

type Table = BTreeMap<String, Vec<String>>;

/// What the tables of the document allow.
#[derive(Default)]
struct Rules {
    /// Layer -> the modules it may import; a module stands for all below it.
    imports: Table,
    /// Crate -> the layers that may use it.
    crates: Table,
}

impl Rules {
    fn read(document: &Path) -> Self {
        let rules = Self::parse(&std::fs::read_to_string(document).unwrap());
        assert!(
            rules.imports.contains_key("runner") && rules.crates.contains_key("clap"),
            "the tables are gone"
        );
        rules
    }

    fn parse(markdown: &str) -> Self {
        let mut rules = Self::default();
        let mut section: Option<fn(&mut Self) -> &mut Table> = None;
        for line in markdown.lines() {
            let cells: Vec<&str> = line.trim_matches('|').split('|').map(str::trim).collect();
            match (line.starts_with('|'), cells.as_slice()) {
                (false, _) => section = None,
                (true, ["layer", "may import", ..]) => section = Some(|rules| &mut rules.imports),
                (true, ["crate", "only in", ..]) => section = Some(|rules| &mut rules.crates),
                (true, [keys, values, ..]) => {
                    if let Some(table) = section {
                        for key in quoted(keys) {
                            table(&mut rules).insert(key, quoted(values));
                        }
                    }
                }
                (true, _) => {}
            }
        }
        rules
    }

    fn offences(&self, sources: &[Source]) -> Vec<String> {
        let test_modules: BTreeSet<&Vec<String>> =
            sources.iter().flat_map(|source| &source.test_modules).collect();
        let is_test = |source: &Source| test_modules.iter().any(|test| source.module.starts_with(test));
        sources.iter().filter(|source| !is_test(source)).flat_map(|source| self.offences_of(source)).collect()
    }

    fn offences_of(&self, source: &Source) -> Vec<String> {
        let Source { file, layer, .. } = source;
        let Some(imports) = self.imports.get(layer) else {
            return vec![format!("{file}: `{layer}` is no layer of docs/architecture.md")];
        };
        let mut offences = Vec::new();
        for mention in &source.mentions {
            let line = mention.line;
            match &mention.what {
                What::Module(path) => {
                    let path = path.join("::");
                    let inside = |module: &str| path == module || path.starts_with(&format!("{module}::"));
                    if !inside(layer) && !imports.iter().any(|module| inside(module)) {
                        offences.push(format!("{file}:{line}: `{layer}` must not import `{path}`"));
                    }
                }
                What::Crate(name) => {
                    if let Some(layers) = self.crates.get(name).filter(|layers| !layers.contains(layer)) {
                        let layers = layers.join("` and `");
                        offences.push(format!("{file}:{line}: the crate `{name}` is for `{layers}` only"));
                    }
                }
                What::Print(name) => {
                    if !PRINTING_LAYERS.contains(&layer.as_str()) {
                        let advice = "send an event or return a value";
                        offences.push(format!("{file}:{line}: `{name}!` outside of main and cli: {advice}"));
                    }
                }
            }
        }
        offences.dedup();
        offences
    }
}

/// The words in backticks.
fn quoted(cell: &str) -> Vec<String> {
    cell.split('`').skip(1).step_by(2).map(str::to_owned).collect()
}

/// One file, reduced to what it mentions.
struct Source {
    file: String,
    layer: String,
    module: Vec<String>,
    mentions: Vec<Mention>,
    /// Modules in other files that this one declares under `#[cfg(test)]`.
    test_modules: Vec<Vec<String>>,
}

struct Mention {
    line: usize,
    what: What,
}

enum What {
    /// A path inside our library: `spec::kind::Kind`.
    Module(Vec<String>),
    /// The first word of any other path: mostly a crate.
    Crate(String),
    Print(String),
}

impl Source {
    fn parse(file: &str, text: &str) -> Self {
        let stem = file.trim_start_matches("src/").trim_end_matches(".rs").trim_end_matches("/mod");
        let module: Vec<String> = stem.split('/').filter(|part| *part != "lib").map(str::to_owned).collect();
        let layer = module.first().map_or("lib", String::as_str).to_owned();
        let mut source = Self {
            file: file.to_owned(),
            layer,
            module: module.clone(),
            mentions: vec![],
            test_modules: vec![],
        };
        let tokens: TokenStream = text.parse().unwrap_or_else(|e| panic!("{file}: {e}"));
        source.walk(&tokens.into_iter().collect::<Vec<_>>(), &module);
        source
    }

    fn walk(&mut self, mut tokens: &[TokenTree], module: &[String]) {
        while let [first, rest @ ..] = tokens {
            tokens = match (first, rest) {
                (TokenTree::Punct(hash), [TokenTree::Group(attribute), item @ ..])
                    if hash.as_char() == '#' && attribute.to_string().replace(' ', "") == "[cfg(test)]" =>
                {
                    self.skip_item(item, module)
                }
                (TokenTree::Ident(keyword), [TokenTree::Ident(name), TokenTree::Group(body), after @ ..])
                    if keyword == "mod" =>
                {
                    let inner: Vec<String> = module.iter().cloned().chain([name.to_string()]).collect();
                    self.walk(&trees(body), &inner);
                    after
                }
                (TokenTree::Ident(name), [TokenTree::Punct(bang), after @ ..])
                    if bang.as_char() == '!' && PRINTING.iter().any(|print| name == print) =>
                {
                    let line = name.span().start().line;
                    self.mentions.push(Mention { line, what: What::Print(name.to_string()) });
                    after
                }
                (TokenTree::Ident(_), _) => self.path(tokens, &[], module),
                (TokenTree::Group(group), after) => {
                    self.walk(&trees(group), module);
                    after
                }
                (_, after) => after,
            };
        }
    }

    /// Everything up to the end of the item: its body in braces, or its semicolon.
    fn skip_item<'a>(&mut self, item: &'a [TokenTree], module: &[String]) -> &'a [TokenTree] {
        let ends = |tree: &TokenTree| match tree {
            TokenTree::Group(group) => group.delimiter() == Delimiter::Brace,
            TokenTree::Punct(punct) => punct.as_char() == ';',
            _ => false,
        };
        let end = item.iter().position(ends).map_or(item.len(), |position| position + 1);
        if let [.., TokenTree::Ident(keyword), TokenTree::Ident(name), TokenTree::Punct(_)] = &item[..end]
            && keyword == "mod"
        {
            self.test_modules.push(module.iter().cloned().chain([name.to_string()]).collect());
        }
        &item[end..]
    }

    /// Reads the path at the front, with its group if it is the tree of a `use`.
    fn path<'a>(
        &mut self,
        mut tokens: &'a [TokenTree],
        front: &[String],
        module: &[String],
    ) -> &'a [TokenTree] {
        let mut path = front.to_vec();
        let mut line = 0;
        let mut qualified = !front.is_empty();
        while let [TokenTree::Ident(name), rest @ ..] = tokens {
            path.push(name.to_string());
            line = name.span().start().line;
            tokens = rest;
            match after_colons(tokens) {
                Some([TokenTree::Group(group), after @ ..]) if group.delimiter() == Delimiter::Brace => {
                    self.use_tree(&trees(group), &path, module);
                    return after;
                }
                Some(after) => (tokens, qualified) = (after, true),
                None => break,
            }
        }
        if qualified {
            self.mention(path, line, module);
        }
        tokens
    }

    fn use_tree(&mut self, tokens: &[TokenTree], front: &[String], module: &[String]) {
        let comma = |tree: &TokenTree| matches!(tree, TokenTree::Punct(punct) if punct.as_char() == ',');
        for branch in tokens.split(comma) {
            match branch {
                [TokenTree::Ident(_), ..] => _ = self.path(branch, front, module),
                [star, ..] => self.mention(front.to_vec(), star.span().start().line, module),
                [] => {}
            }
        }
    }

    fn mention(&mut self, path: Vec<String>, line: usize, module: &[String]) {
        let ours = match path[0].as_str() {
            "crate" => path[1..].to_vec(),
            "pipe" if self.layer == "bin" => path[1..].to_vec(),
            "super" => {
                let ups = path.iter().take_while(|part| *part == "super").count();
                let base = &module[..module.len().saturating_sub(ups)];
                base.iter().chain(&path[ups..]).cloned().collect()
            }
            "self" => return,
            _ => {
                self.mentions.push(Mention { line, what: What::Crate(path[0].clone()) });
                return;
            }
        };
        let ours: Vec<String> = ours.into_iter().filter(|part| part != "self").collect();
        if !ours.is_empty() {
            self.mentions.push(Mention { line, what: What::Module(ours) });
        }
    }
}

fn trees(group: &Group) -> Vec<TokenTree> {
    group.stream().into_iter().collect()
}

fn after_colons(tokens: &[TokenTree]) -> Option<&[TokenTree]> {
    match tokens {
        [TokenTree::Punct(first), TokenTree::Punct(second), rest @ ..]
            if first.as_char() == ':' && second.as_char() == ':' =>
        {
            Some(rest)
        }
        _ => None,
    }
}
