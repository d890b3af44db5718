//! The values of placeholders: variables, declared environment variables and, within a stage, its axes and the
//! instance that `each` goes through.

use std::borrow::Cow;
use std::cell::Cell;
use std::collections::HashMap;

use serde_json::Value;

use super::interpolate::{Budget, Placeholder, PlaceholderLookup, describe, interpolate};
use super::pipeline::InstanceId;
use super::source_text::{FileId, Span};
use super::spec_issue::{SpecIssue, SpecIssues};
use super::yaml_node::{YamlData, YamlEntry, YamlNode};
use pipe_core::name::{NAME_RULE, is_name};
use pipe_core::scalar::Scalar;
use pipe_core::suggest::{closest, did_you_mean};

/// How many variables may refer to each other in a chain.
const LONGEST_CHAIN: usize = 64;

type LookupResult<'a> = Option<Cow<'a, YamlNode>>;

/// The variables and the environment of a pipeline.
pub(super) struct Scope<'a> {
    vars: Vars<'a>,
    env: Vec<DeclaredEnv<'a>>,
    environment: &'a dyn Fn(&str) -> Option<String>,
}

struct Vars<'a> {
    entries: &'a [YamlEntry],
    by_name: HashMap<&'a str, usize>,
    states: Vec<VarState>,
    /// Whether anything refers to the variable.
    used: Vec<Cell<bool>>,
}

#[derive(Clone)]
enum VarState {
    Untouched,
    /// Being resolved: meeting it again is a cycle.
    Open,
    Done(YamlNode),
    Failed,
}

/// An environment variable that the pipeline declares under `env:`.
struct DeclaredEnv<'a> {
    name: &'a str,
    default: &'a Scalar,
}

impl<'a> Scope<'a> {
    /// Resolves every variable, so that mistakes in unused variables are found too.
    pub(super) fn new(
        vars: Option<&'a YamlNode>,
        env: Option<&'a YamlNode>,
        environment: &'a dyn Fn(&str) -> Option<String>,
        budget: &Budget,
        issues: &mut SpecIssues,
    ) -> Self {
        let entries = vars.map(YamlNode::entries).unwrap_or_default();
        for entry in entries.iter().filter(|entry| !is_name(&entry.key)) {
            let message = format!("`{}` cannot be the name of a variable", entry.key);
            issues.push(SpecIssue::new(entry.key_span, message).hint(NAME_RULE));
        }
        let by_name = entries.iter().enumerate().map(|(at, entry)| (entry.key.as_str(), at)).collect();
        let used = vec![Cell::new(false); entries.len()];
        let vars = Vars { entries, by_name, states: vec![VarState::Untouched; entries.len()], used };
        let declared = env.map(YamlNode::entries).unwrap_or_default().iter();
        let env = declared.filter_map(|entry| {
            let default = entry.value.as_scalar()?;
            Some(DeclaredEnv { name: &entry.key, default })
        });
        let mut scope = Self { vars, env: env.collect(), environment };
        for at in 0..entries.len() {
            let mut resolver = VarResolver { scope: &mut scope, budget, chain: Vec::new() };
            resolver.resolve(at, issues);
        }
        scope
    }

    /// Returns the variables of a file that nothing has referred to so far, with the places of their names.
    pub(super) fn unused(&self, file: FileId) -> impl Iterator<Item = (&'a str, Span)> {
        let entries = self.vars.entries.iter().zip(&self.vars.used);
        let unused = entries.filter(move |(entry, used)| !used.get() && entry.key_span.file == file);
        unused.map(|(entry, _)| (entry.key.as_str(), entry.key_span))
    }

    fn env(&self, name: &str, span: Span, issues: &mut SpecIssues) -> LookupResult<'_> {
        let Some(declared) = self.env.iter().find(|declared| declared.name == name) else {
            let issue = SpecIssue::new(span, format!("the environment variable `{name}` is not declared"));
            let close = closest(name, self.env.iter().map(|declared| declared.name));
            return issues.reject(issue.hint(match close {
                Some(close) => format!("did you mean `${{env.{close}}}`?"),
                None => format!(
                    "declare it at the top of the file: `env: {{ {name}: }}`, \
                     or with a default: `env: {{ {name}: value }}`"
                ),
            }));
        };
        let value = (self.environment)(name);
        if is_secret(name) || value.as_deref().is_some_and(has_password) {
            let message = format!("the value of `{name}` would be readable in locks, manifests and bundles");
            let hint = format!(
                "pass it to the program with `env: [{name}]` in the `command`, where only a digest of it is recorded"
            );
            return issues.reject(SpecIssue::new(span, message).hint(hint));
        }
        let owned = |scalar| Some(Cow::Owned(YamlNode { span, data: YamlData::Scalar(scalar) }));
        let Some(text) = value else {
            if *declared.default == Scalar::Null {
                let issue = SpecIssue::new(span, format!("the environment variable `{name}` is not set"));
                let hint = format!("set it, or give it a default: `env: {{ {name}: value }}`");
                return issues.reject(issue.hint(hint));
            }
            return owned(declared.default.clone());
        };
        let read = Scalar::plain(&text).ok();
        let (read, expected) = match declared.default {
            Scalar::Null | Scalar::Text(_) => return owned(Scalar::Text(text)),
            Scalar::Bool(_) => (read.filter(|scalar| matches!(scalar, Scalar::Bool(_))), "true or false"),
            _ => (read.filter(Scalar::is_number), "a number"),
        };
        if read.is_none() {
            let found = describe(&Value::String(text));
            let message = format!(
                "the environment variable `{name}` must be {expected}, like its default, but it is {found}"
            );
            issues.push(SpecIssue::new(span, message));
        }
        read.and_then(owned)
    }

    fn matrix_outside_a_stage(axis: &str, span: Span, issues: &mut SpecIssues) -> LookupResult<'a> {
        let issue = SpecIssue::new(span, format!("`${{matrix.{axis}}}` has no meaning here"));
        issues
            .reject(issue.hint("axes can only be used in the parameters of a stage with `matrix` or `each`"))
    }

    fn each_outside_a_stage(span: Span, issues: &mut SpecIssues) -> LookupResult<'a> {
        let issue = SpecIssue::new(span, "`${each}` has no meaning here");
        issues.reject(issue.hint("it can only be used in the parameters of a stage with `each: other-stage`"))
    }

    fn var(&self, name: &str, path: &[&str], span: Span, issues: &mut SpecIssues) -> LookupResult<'_> {
        let Some(&at) = self.vars.by_name.get(name) else {
            let issue = SpecIssue::new(span, format!("there is no variable `vars.{name}`"));
            let names = self.vars.entries.iter().map(|entry| entry.key.as_str());
            let hint = issues.suggestions.did_you_mean(name, "the variables are", names);
            return issues.reject(issue.maybe_hint(hint));
        };
        self.vars.used[at].set(true);
        let VarState::Done(value) = &self.vars.states[at] else { return None };
        let mut value = value;
        let mut so_far = format!("vars.{name}");
        for key in path {
            if !value.is_map() {
                let message = format!("`{so_far}` is {}; it has no key `{key}`", describe(&value.to_json()));
                return issues.reject(SpecIssue::new(span, message));
            }
            let Some(inner) = value.get(key) else {
                let issue = SpecIssue::new(span, format!("`{so_far}` has no key `{key}`"));
                let keys = value.entries().iter().map(|entry| entry.key.as_str());
                let hint = issues.suggestions.did_you_mean(key, "its keys are", keys);
                return issues.reject(issue.maybe_hint(hint));
            };
            value = inner;
            so_far = format!("{so_far}.{key}");
        }
        Some(Cow::Borrowed(value))
    }
}

impl PlaceholderLookup for &Scope<'_> {
    fn lookup(&mut self, placeholder: &Placeholder, span: Span, issues: &mut SpecIssues) -> LookupResult<'_> {
        match placeholder {
            Placeholder::Vars(name, path) => self.var(name, path, span, issues),
            Placeholder::Env(name) => self.env(name, span, issues),
            Placeholder::Matrix(axis) | Placeholder::VarsAt(.., axis) => {
                Scope::matrix_outside_a_stage(axis, span, issues)
            }
            Placeholder::Each => Scope::each_outside_a_stage(span, issues),
        }
    }
}

/// Returns whether the name of an environment variable says that its value is a secret.
fn is_secret(name: &str) -> bool {
    // `MAX_TOKENS` is a number, and `PWD` alone is the current directory.
    const ENDS: [&str; 12] = [
        "TOKEN",
        "SECRET",
        "SECRETS",
        "PASSWORD",
        "PASSWORDS",
        "PASSWD",
        "PWD",
        "PASSPHRASE",
        "CREDENTIAL",
        "CREDENTIALS",
        "APIKEY",
        "APIKEYS",
    ];
    const KEYS: [&str; 4] = ["API_KEY", "API_KEYS", "ACCESS_KEY", "PRIVATE_KEY"];
    let name = name.to_ascii_uppercase();
    let is_named = name.split('_').any(|word| word == "PAT" || ENDS.iter().any(|end| word.ends_with(end)));
    name != "PWD" && (is_named || KEYS.iter().any(|end| name.ends_with(end)))
}

/// Returns whether a value contains a URL with a password, such as `https://user:password@host/`.
fn has_password(value: &str) -> bool {
    let names_password = |rest: &str| {
        let authority = rest.split(['/', '?', '#', ' ']).next().unwrap_or_default();
        let user = authority.rsplit_once('@').map_or("", |(user, _host)| user);
        user.split_once(':').is_some_and(|(_name, password)| !password.is_empty())
    };
    value.split("://").skip(1).any(names_password)
}

/// Resolves variables on demand and remembers which variable led to which, to find cycles.
struct VarResolver<'s, 'a> {
    scope: &'s mut Scope<'a>,
    budget: &'s Budget,
    chain: Vec<usize>,
}

impl VarResolver<'_, '_> {
    fn resolve(&mut self, at: usize, issues: &mut SpecIssues) {
        if !matches!(self.scope.vars.states[at], VarState::Untouched) {
            return;
        }
        let entry = &self.scope.vars.entries[at];
        if self.chain.len() == LONGEST_CHAIN {
            let message = format!("variables refer to each other more than {LONGEST_CHAIN} deep");
            issues.push(SpecIssue::new(entry.key_span, message));
            self.scope.vars.states[at] = VarState::Failed;
            return;
        }
        self.scope.vars.states[at] = VarState::Open;
        self.chain.push(at);
        let budget = self.budget;
        let value = interpolate(&entry.value, self, budget, issues);
        self.chain.pop();
        self.scope.vars.states[at] = value.map_or(VarState::Failed, VarState::Done);
    }
}

impl PlaceholderLookup for VarResolver<'_, '_> {
    fn lookup(&mut self, placeholder: &Placeholder, span: Span, issues: &mut SpecIssues) -> LookupResult<'_> {
        let (name, path) = match placeholder {
            Placeholder::Vars(name, path) => (name, path),
            Placeholder::Env(name) => return self.scope.env(name, span, issues),
            Placeholder::Matrix(axis) | Placeholder::VarsAt(.., axis) => {
                return Scope::matrix_outside_a_stage(axis, span, issues);
            }
            Placeholder::Each => return Scope::each_outside_a_stage(span, issues),
        };
        if let Some(&at) = self.scope.vars.by_name.get(name) {
            if let VarState::Open = self.scope.vars.states[at] {
                let start = self.chain.iter().position(|&member| member == at).unwrap_or_default();
                let members = self.chain[start..].iter().chain([&at]);
                let members: Vec<_> =
                    members.map(|&at| format!("vars.{}", self.scope.vars.entries[at].key)).collect();
                let message = format!("variables refer to each other in a circle: {}", members.join(" -> "));
                return issues.reject(SpecIssue::new(span, message));
            }
            self.resolve(at, issues);
        }
        self.scope.var(name, path, span, issues)
    }
}

/// The scope of one instance: its pipeline's scope, its axes, and the instance that `each` goes through.
pub(super) struct InstanceScope<'a> {
    pub pipeline: &'a Scope<'a>,
    pub id: &'a InstanceId,
    /// The typed values of `id.axes`.
    pub values: &'a [Scalar],
    /// The reference that `${each}` stands for.
    pub each: Option<&'a str>,
}

impl InstanceScope<'_> {
    /// Returns the position of an axis of the instance.
    fn axis(&self, wanted: &str, span: Span, issues: &mut SpecIssues) -> Option<usize> {
        let at = self.id.axes.iter().position(|(axis, _)| axis == wanted);
        if at.is_none() {
            let issue = SpecIssue::new(span, format!("`{}` has no axis `{wanted}`", self.id.stage));
            let names = self.id.axes.iter().map(|(axis, _)| axis.as_str());
            let hint = did_you_mean(wanted, "its axes are", names)
                .unwrap_or_else(|| format!("give it one: `matrix: {{ {wanted}: [...] }}`"));
            issues.push(issue.hint(hint));
        }
        at
    }
}

impl PlaceholderLookup for InstanceScope<'_> {
    fn lookup(&mut self, placeholder: &Placeholder, span: Span, issues: &mut SpecIssues) -> LookupResult<'_> {
        let owned = |scalar| Cow::Owned(YamlNode { span, data: YamlData::Scalar(scalar) });
        match placeholder {
            Placeholder::Matrix(axis) => {
                self.axis(axis, span, issues).map(|at| owned(self.values[at].clone()))
            }
            Placeholder::VarsAt(name, path, axis) => {
                let (_, key) = &self.id.axes[self.axis(axis, span, issues)?];
                let path: Vec<_> = path.iter().copied().chain([key.as_str()]).collect();
                self.pipeline.var(name, &path, span, issues)
            }
            Placeholder::Each => match self.each {
                Some(each) => Some(owned(Scalar::Text(each.to_owned()))),
                None => Scope::each_outside_a_stage(span, issues),
            },
            Placeholder::Vars(name, path) => self.pipeline.var(name, path, span, issues),
            Placeholder::Env(name) => self.pipeline.env(name, span, issues),
        }
    }
}
