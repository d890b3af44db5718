//! What the names in `${...}` stand for: variables, declared environment variables, and, within a
//! stage, its axes and the instance that `each` goes through.

use std::borrow::Cow;
use std::collections::HashMap;

use serde_yaml::Value;

use super::interpolate::{Budget, Name, Names, describe, interpolate};
use super::node::{Data, Entry, Node};
use super::pipeline::InstanceId;
use super::problem::{Problem, Problems};
use super::source::Span;
use pipe_core::name::{NAME_RULE, is_name};
use pipe_core::scalar::Scalar;
use pipe_core::suggest::{closest, did_you_mean};

/// Variables that refer to variables that refer to variables.
const LONGEST_CHAIN: usize = 64;

type Found<'a> = Option<Cow<'a, Value>>;

/// The variables and the environment of a pipeline.
pub(super) struct Scope<'a> {
    vars: Vars<'a>,
    env: Vec<Declared<'a>>,
    environment: &'a dyn Fn(&str) -> Option<String>,
}

struct Vars<'a> {
    entries: &'a [Entry],
    by_name: HashMap<&'a str, usize>,
    states: Vec<State>,
}

#[derive(Clone)]
enum State {
    Untouched,
    /// Being resolved: meeting it again is a cycle.
    Open,
    Done(Value),
    Failed,
}

struct Declared<'a> {
    name: &'a str,
    default: &'a Scalar,
}

impl<'a> Scope<'a> {
    /// Resolves every variable, so that a mistake in one that nobody uses is found too.
    pub(super) fn new(
        vars: Option<&'a Node>,
        env: Option<&'a Node>,
        environment: &'a dyn Fn(&str) -> Option<String>,
        budget: &Budget,
        problems: &mut Problems,
    ) -> Self {
        let entries = vars.map(Node::entries).unwrap_or_default();
        for entry in entries.iter().filter(|entry| !is_name(&entry.key)) {
            let message = format!("`{}` cannot be the name of a variable", entry.key);
            problems.push(Problem::new(entry.key_span, message).hint(NAME_RULE));
        }
        let by_name = entries.iter().enumerate().map(|(at, entry)| (entry.key.as_str(), at)).collect();
        let vars = Vars { entries, by_name, states: vec![State::Untouched; entries.len()] };
        let env =
            env.map(Node::entries).unwrap_or_default().iter().filter_map(|entry| match &entry.value.data {
                Data::Scalar(default) => Some(Declared { name: &entry.key, default }),
                _ => None,
            });
        let mut scope = Self { vars, env: env.collect(), environment };
        for at in 0..entries.len() {
            let mut resolver = Resolver { scope: &mut scope, budget, chain: Vec::new() };
            resolver.resolve(at, problems);
        }
        scope
    }

    fn env(&self, name: &str, span: Span, problems: &mut Problems) -> Found<'_> {
        let Some(declared) = self.env.iter().find(|declared| declared.name == name) else {
            let problem = Problem::new(span, format!("the environment variable `{name}` is not declared"));
            let close = closest(name, self.env.iter().map(|declared| declared.name));
            return problems.refuse(problem.hint(match close {
                Some(close) => format!("did you mean `${{env.{close}}}`?"),
                None => format!(
                    "declare it at the top of the file: `env: {{ {name}: }}`, \
                     or with a default: `env: {{ {name}: value }}`"
                ),
            }));
        };
        let Some(text) = (self.environment)(name) else {
            if *declared.default == Scalar::Null {
                let problem = Problem::new(span, format!("the environment variable `{name}` is not set"));
                let hint = format!("set it, or give it a default: `env: {{ {name}: value }}`");
                return problems.refuse(problem.hint(hint));
            }
            return Some(Cow::Owned(declared.default.into()));
        };
        let read = Scalar::plain(&text).ok();
        let (read, expected) = match declared.default {
            Scalar::Null | Scalar::Text(_) => return Some(Cow::Owned(Value::String(text))),
            Scalar::Bool(_) => (read.filter(|scalar| matches!(scalar, Scalar::Bool(_))), "true or false"),
            _ => (read.filter(Scalar::is_number), "a number"),
        };
        if read.is_none() {
            let found = describe(&Value::String(text));
            let message = format!(
                "the environment variable `{name}` must be {expected}, as its default is, but it is {found}"
            );
            problems.push(Problem::new(span, message));
        }
        read.map(|scalar| Cow::Owned(Value::from(&scalar)))
    }

    fn matrix_outside(axis: &str, span: Span, problems: &mut Problems) -> Found<'a> {
        let problem = Problem::new(span, format!("`${{matrix.{axis}}}` has no meaning here"));
        problems.refuse(problem.hint("only the parameters of a stage with `matrix` or `each` know axes"))
    }

    fn each_outside(span: Span, problems: &mut Problems) -> Found<'a> {
        let problem = Problem::new(span, "`${each}` has no meaning here");
        problems.refuse(problem.hint("only the parameters of a stage with `each: other-stage` know it"))
    }

    fn var(&self, name: &str, path: &[&str], span: Span, problems: &mut Problems) -> Found<'_> {
        let Some(&at) = self.vars.by_name.get(name) else {
            let problem = Problem::new(span, format!("there is no variable `vars.{name}`"));
            let names = self.vars.entries.iter().map(|entry| entry.key.as_str());
            return problems.refuse(problem.maybe_hint(did_you_mean(name, "the variables are", names)));
        };
        let State::Done(value) = &self.vars.states[at] else { return None };
        let mut value = value;
        let mut so_far = format!("vars.{name}");
        for key in path {
            let Value::Mapping(mapping) = value else {
                let message = format!("`{so_far}` is {}; it has no key `{key}`", describe(value));
                return problems.refuse(Problem::new(span, message));
            };
            let Some(inner) = mapping.get(*key) else {
                let problem = Problem::new(span, format!("`{so_far}` has no key `{key}`"));
                let keys: Vec<_> = mapping.keys().filter_map(Value::as_str).collect();
                return problems.refuse(problem.maybe_hint(did_you_mean(key, "its keys are", keys)));
            };
            value = inner;
            so_far = format!("{so_far}.{key}");
        }
        Some(Cow::Borrowed(value))
    }
}

impl Names for &Scope<'_> {
    fn lookup(&mut self, name: &Name, span: Span, problems: &mut Problems) -> Found<'_> {
        match name {
            Name::Vars(name, path) => self.var(name, path, span, problems),
            Name::Env(name) => self.env(name, span, problems),
            Name::Matrix(axis) => Scope::matrix_outside(axis, span, problems),
            Name::Each => Scope::each_outside(span, problems),
        }
    }
}

/// Resolves variables on demand, remembering the way to each of them.
struct Resolver<'s, 'a> {
    scope: &'s mut Scope<'a>,
    budget: &'s Budget,
    chain: Vec<usize>,
}

impl Resolver<'_, '_> {
    fn resolve(&mut self, at: usize, problems: &mut Problems) {
        if !matches!(self.scope.vars.states[at], State::Untouched) {
            return;
        }
        let entry = &self.scope.vars.entries[at];
        if self.chain.len() == LONGEST_CHAIN {
            let message = format!("variables refer to each other more than {LONGEST_CHAIN} deep");
            problems.push(Problem::new(entry.key_span, message));
            self.scope.vars.states[at] = State::Failed;
            return;
        }
        self.scope.vars.states[at] = State::Open;
        self.chain.push(at);
        let budget = self.budget;
        let value = interpolate(&entry.value, self, budget, problems);
        self.chain.pop();
        self.scope.vars.states[at] = value.map_or(State::Failed, State::Done);
    }
}

impl Names for Resolver<'_, '_> {
    fn lookup(&mut self, name: &Name, span: Span, problems: &mut Problems) -> Found<'_> {
        let (name, path) = match name {
            Name::Vars(name, path) => (name, path),
            Name::Env(name) => return self.scope.env(name, span, problems),
            Name::Matrix(axis) => return Scope::matrix_outside(axis, span, problems),
            Name::Each => return Scope::each_outside(span, problems),
        };
        if let Some(&at) = self.scope.vars.by_name.get(name) {
            if let State::Open = self.scope.vars.states[at] {
                let start = self.chain.iter().position(|&member| member == at).unwrap_or_default();
                let members = self.chain[start..].iter().chain([&at]);
                let members: Vec<_> =
                    members.map(|&at| format!("vars.{}", self.scope.vars.entries[at].key)).collect();
                let message = format!("variables refer to each other in a circle: {}", members.join(" -> "));
                return problems.refuse(Problem::new(span, message));
            }
            self.resolve(at, problems);
        }
        self.scope.var(name, path, span, problems)
    }
}

/// The scope of one instance: its pipeline's, its axes, and what it goes through.
pub(super) struct InstanceScope<'a> {
    pub pipeline: &'a Scope<'a>,
    pub id: &'a InstanceId,
    /// The typed values of `id.axes`.
    pub values: &'a [Value],
    pub each: Option<&'a Value>,
}

impl Names for InstanceScope<'_> {
    fn lookup(&mut self, name: &Name, span: Span, problems: &mut Problems) -> Found<'_> {
        match name {
            Name::Matrix(wanted) => {
                let mut axes = self.id.axes.iter().zip(self.values);
                let value = axes.find_map(|((axis, _), value)| (axis == wanted).then_some(value));
                if value.is_none() {
                    let problem = Problem::new(span, format!("`{}` has no axis `{wanted}`", self.id.stage));
                    let names = self.id.axes.iter().map(|(axis, _)| axis.as_str());
                    let hint = did_you_mean(wanted, "its axes are", names);
                    let or_else = || format!("give it one: `matrix: {{ {wanted}: [...] }}`");
                    problems.push(problem.hint(hint.unwrap_or_else(or_else)));
                }
                value.map(Cow::Borrowed)
            }
            Name::Each => match self.each {
                Some(each) => Some(Cow::Borrowed(each)),
                None => Scope::each_outside(span, problems),
            },
            Name::Vars(name, path) => self.pipeline.var(name, path, span, problems),
            Name::Env(name) => self.pipeline.env(name, span, problems),
        }
    }
}
