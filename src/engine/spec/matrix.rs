//! The combinations of a `matrix`: the product of its axes, less what `exclude` drops, and what
//! `include` adds.

use std::collections::HashSet;

use serde_yaml::{Mapping, Value};

use super::interpolate::describe;
use super::node::{Node, Step};
use super::problem::{Problem, Problems};
use pipe_core::name::{NAME_RULE, is_name};
use pipe_core::scalar::canonical_text;
use pipe_core::suggest::{did_you_mean, listed};

/// One stage cannot have more instances than this.
pub(super) const MOST_INSTANCES: usize = 100_000;

/// The axes of a stage in order, and for each instance the values in the same order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expansion {
    pub axes: Vec<String>,
    pub combinations: Vec<Vec<AxisValue>>,
}

#[derive(Debug, Clone, PartialEq)]
pub(super) struct AxisValue {
    pub value: Value,
    /// Canonical: equal values have equal texts.
    pub text: String,
}

/// Taken by fan-ins to tell their sources apart.
const RESERVED: [&str; 2] = ["stage", "output"];

/// Expands the interpolated `matrix` of a stage. `None` after problems.
pub(super) fn expand(value: &Value, node: &Node, problems: &mut Problems) -> Option<Expansion> {
    let mapping = value.as_mapping()?;
    let mut reader = Reader { node, problems, failed: false };
    let mut axes = Vec::new();
    let mut lists = Vec::new();
    for (name, value) in mapping {
        let name = name.as_str().unwrap_or_default();
        if name == "include" || name == "exclude" {
            continue;
        }
        axes.push(name.to_owned());
        lists.push(reader.axis(name, value));
    }
    let include = reader.combinations(mapping, "include");
    let exclude = reader.combinations(mapping, "exclude");
    if axes.is_empty() {
        match include.first() {
            Some(first) => {
                for (axis, _) in first {
                    let place = [Step::Key("include".to_owned()), Step::Index(0), Step::Key(axis.clone())];
                    reader.axis_name(axis, &place);
                }
                axes = first.iter().map(|(axis, _)| axis.clone()).collect();
            }
            None if !reader.failed => {
                let problem = Problem::new(node.span, "this matrix has no axis");
                reader.complain(problem.hint("for example `matrix: { seed: [0, 1, 2] }`"));
            }
            None => {}
        }
    }
    if reader.failed {
        return None;
    }
    let mut combinations = if lists.is_empty() { Vec::new() } else { reader.product(&lists)? };
    for (position, pattern) in exclude.iter().enumerate() {
        reader.exclude(&axes, &mut combinations, pattern, position);
    }
    reader.include(&axes, &mut combinations, &include);
    if combinations.is_empty() && !reader.failed {
        reader.complain(Problem::new(node.span, "`exclude` leaves nothing of this matrix"));
    }
    (!reader.failed).then_some(Expansion { axes, combinations })
}

type Named = Vec<(String, AxisValue)>;

struct Reader<'a> {
    node: &'a Node,
    problems: &'a mut Problems,
    failed: bool,
}

impl Reader<'_> {
    fn complain(&mut self, problem: Problem) {
        self.failed = true;
        self.problems.push(problem);
    }

    fn span(&self, path: &[Step]) -> super::source::Span {
        self.node.locate(path)
    }

    fn axis(&mut self, name: &str, value: &Value) -> Vec<AxisValue> {
        let here = [Step::Key(name.to_owned())];
        self.axis_name(name, &here);
        let Value::Sequence(items) = value else {
            let message =
                format!("the axis `{name}` expects a list of values, but this is {}", describe(value));
            let problem = Problem::new(self.span(&here), message);
            self.complain(problem.hint(format!("write `{name}: [...]`")));
            return Vec::new();
        };
        if items.is_empty() {
            self.complain(Problem::new(self.span(&here), format!("the axis `{name}` has no values")));
        }
        let mut seen = HashSet::new();
        let mut values = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let place = [here[0].clone(), Step::Index(position)];
            let Some(value) = self.value(name, item, &place) else { continue };
            if !seen.insert(value.text.clone()) {
                let message = format!("the axis `{name}` has the value `{}` twice", value.text);
                self.complain(Problem::new(self.span(&place), message));
            }
            values.push(value);
        }
        values
    }

    fn axis_name(&mut self, name: &str, place: &[Step]) {
        if !is_name(name) || RESERVED.contains(&name) {
            let message = format!("`{name}` cannot be the name of an axis");
            let problem = Problem::new(self.node.locate_key(place), message);
            let reserved = "the names `stage` and `output` are taken";
            self.complain(problem.hint(if is_name(name) { reserved } else { NAME_RULE }));
        }
    }

    fn value(&mut self, axis: &str, value: &Value, place: &[Step]) -> Option<AxisValue> {
        let text = canonical_text(value);
        if text.is_none() {
            let message = format!(
                "a value of the axis `{axis}` is text, a number, true or false, but this is {}",
                describe(value)
            );
            self.complain(Problem::new(self.span(place), message));
        }
        text.map(|text| AxisValue { value: value.clone(), text })
    }

    /// The entries of `include` or `exclude`.
    fn combinations(&mut self, matrix: &Mapping, key: &str) -> Vec<Named> {
        let Some(value) = matrix.get(key) else { return Vec::new() };
        let here = Step::Key(key.to_owned());
        let Value::Sequence(items) = value else {
            let message = format!("`{key}` expects a list of maps, but this is {}", describe(value));
            let problem = Problem::new(self.span(&[here]), message);
            self.complain(problem.hint(format!("for example `{key}: [{{ seed: 1 }}]`")));
            return Vec::new();
        };
        let mut combinations = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let place = [here.clone(), Step::Index(position)];
            let Some(mapping) = item.as_mapping().filter(|mapping| !mapping.is_empty()) else {
                let message = format!("an entry of `{key}` is a map from axis to value");
                self.complain(Problem::new(self.span(&place), message));
                continue;
            };
            let mut named = Named::with_capacity(mapping.len());
            for (axis, value) in mapping {
                let axis = axis.as_str().unwrap_or_default();
                let place = [here.clone(), Step::Index(position), Step::Key(axis.to_owned())];
                if let Some(value) = self.value(axis, value, &place) {
                    named.push((axis.to_owned(), value));
                }
            }
            combinations.push(named);
        }
        combinations
    }

    /// The last axis changes fastest.
    fn product(&mut self, lists: &[Vec<AxisValue>]) -> Option<Vec<Vec<AxisValue>>> {
        let count = lists.iter().try_fold(1usize, |count, list| count.checked_mul(list.len()));
        let Some(count) = count.filter(|&count| count <= MOST_INSTANCES) else {
            let message = format!("this matrix has more than {MOST_INSTANCES} combinations");
            self.complain(Problem::new(self.node.span, message));
            return None;
        };
        let mut combinations = Vec::with_capacity(count);
        for number in 0..count {
            let mut rest = number;
            let mut combination: Vec<_> = lists
                .iter()
                .rev()
                .map(|list| {
                    let value = list[rest % list.len()].clone();
                    rest /= list.len();
                    value
                })
                .collect();
            combination.reverse();
            combinations.push(combination);
        }
        Some(combinations)
    }

    /// The position of an axis that an entry of `include` or `exclude` names.
    fn known(&mut self, axes: &[String], axis: &str, key: &str, position: usize) -> Option<usize> {
        let at = axes.iter().position(|known| known == axis);
        if at.is_none() {
            let place = [Step::Key(key.to_owned()), Step::Index(position), Step::Key(axis.to_owned())];
            let problem =
                Problem::new(self.node.locate_key(&place), format!("this matrix has no axis `{axis}`"));
            let hint = did_you_mean(axis, "its axes are", axes.iter().map(String::as_str));
            self.complain(problem.maybe_hint(hint));
        }
        at
    }

    fn exclude(
        &mut self,
        axes: &[String],
        combinations: &mut Vec<Vec<AxisValue>>,
        pattern: &Named,
        position: usize,
    ) {
        let mut wanted = Vec::with_capacity(pattern.len());
        for (axis, value) in pattern {
            match self.known(axes, axis, "exclude", position) {
                Some(at) => wanted.push((at, value)),
                None => return,
            }
        }
        let before = combinations.len();
        combinations
            .retain(|combination| !wanted.iter().all(|(at, value)| combination[*at].text == value.text));
        if combinations.len() == before {
            let place = [Step::Key("exclude".to_owned()), Step::Index(position)];
            let problem = Problem::new(self.span(&place), "no combination matches this entry of `exclude`");
            self.complain(problem.hint("remove it, or correct its values"));
        }
    }

    fn include(&mut self, axes: &[String], combinations: &mut Vec<Vec<AxisValue>>, include: &[Named]) {
        let texts = |combination: &[AxisValue]| -> Vec<String> {
            combination.iter().map(|value| value.text.clone()).collect()
        };
        let mut seen: HashSet<Vec<String>> =
            if include.is_empty() { HashSet::new() } else { combinations.iter().map(|c| texts(c)).collect() };
        for (position, named) in include.iter().enumerate() {
            let place = [Step::Key("include".to_owned()), Step::Index(position)];
            if named.iter().any(|(axis, _)| self.known(axes, axis, "include", position).is_none()) {
                continue;
            }
            let find =
                |axis: &String| named.iter().find(|(name, _)| name == axis).map(|(_, value)| value.clone());
            let missing: Vec<_> =
                axes.iter().filter(|axis| find(axis).is_none()).map(String::as_str).collect();
            if let Some(missing) = listed(missing) {
                let message = format!("an entry of `include` names every axis; {missing} is missing");
                self.complain(Problem::new(self.span(&place), message));
                continue;
            }
            let combination: Vec<_> = axes.iter().filter_map(find).collect();
            if !seen.insert(texts(&combination)) {
                self.complain(Problem::new(self.span(&place), "the matrix has this combination already"));
            }
            combinations.push(combination);
        }
    }
}
