//! Expands a `matrix` into combinations: the product of its axes, without those that `exclude` drops, of these the ones
//! that `sample` draws, and those that `include` adds.

use std::collections::HashSet;

use super::interpolate::describe;
use super::source_text::Span;
use super::spec_issue::{SpecIssue, SpecIssues};
use super::yaml_node::{PathStep, YamlData, YamlNode};
use pipe_core::digest::Digest;
use pipe_core::name::{NAME_RULE, is_name};
use pipe_core::scalar::Scalar;
use pipe_core::suggest::{closest, did_you_mean, listed};

/// How many instances one stage may have.
pub(super) const MOST_INSTANCES: usize = 100_000;

/// The axes of a stage in order, and for each instance the values in the same order.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Expansion {
    pub axes: Vec<String>,
    pub combinations: Vec<Vec<MatrixValue>>,
}

/// One value of an axis.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct MatrixValue {
    pub value: Scalar,
    /// Canonical: equal values have equal texts.
    pub text: String,
}

/// The keys of a matrix that are not axes.
const NOT_AXES: [&str; 3] = ["include", "exclude", "sample"];

/// Fan-ins use these names to tell their sources apart.
const RESERVED: [&str; 2] = ["stage", "output"];

/// Expands the interpolated `matrix` of a stage; `written` is the matrix before interpolation, for places. `None`
/// after issues were reported.
pub(super) fn expand(matrix: &YamlNode, written: &YamlNode, issues: &mut SpecIssues) -> Option<Expansion> {
    let YamlData::Map(entries) = &matrix.data else { return None };
    let mut reader = MatrixReader { written, issues, failed: false };
    let mut axes = Vec::new();
    let mut lists = Vec::new();
    for entry in entries.iter().filter(|entry| !NOT_AXES.contains(&entry.key.as_str())) {
        axes.push(entry.key.clone());
        lists.push(reader.axis(&entry.key, &entry.value));
    }
    let include = reader.combinations(matrix, "include");
    let exclude = reader.combinations(matrix, "exclude");
    let sample = reader.sample(matrix);
    if axes.is_empty() {
        match include.first() {
            Some(first) => {
                for (axis, _) in first {
                    let path = [
                        PathStep::Key("include".to_owned()),
                        PathStep::Index(0),
                        PathStep::Key(axis.clone()),
                    ];
                    reader.check_axis_name(axis, &path);
                }
                axes = first.iter().map(|(axis, _)| axis.clone()).collect();
            }
            None if !reader.failed => {
                let issue = SpecIssue::new(written.span, "this matrix has no axis");
                reader.report(issue.hint("for example `matrix: { seed: [0, 1, 2] }`"));
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
    if let Some(sample) = sample {
        sample.keep(&mut combinations);
    }
    reader.include(&axes, &mut combinations, &include);
    if combinations.is_empty() && !reader.failed {
        reader.report(SpecIssue::new(written.span, "`exclude` removes every combination of this matrix"));
    }
    (!reader.failed).then_some(Expansion { axes, combinations })
}

/// One entry of `include` or `exclude`.
type NamedValues = Vec<(String, MatrixValue)>;

/// How many combinations are drawn at random.
struct Sample {
    count: usize,
    seed: u64,
}

impl Sample {
    /// Keeps the drawn combinations, in their order. Whether a combination is drawn before another one depends on the
    /// values of these two alone. So a larger count keeps the earlier draws, and their results in the cache.
    fn keep(&self, combinations: &mut Vec<Vec<MatrixValue>>) {
        let rank = |combination: &Vec<MatrixValue>| {
            let texts: Vec<&str> = combination.iter().map(|value| &*value.text).collect();
            Digest::of(format!("{} {texts:?}", self.seed).as_bytes())
        };
        let mut ranks: Vec<Digest> = combinations.iter().map(rank).collect();
        ranks.sort_unstable();
        if let Some(&first_left_out) = ranks.get(self.count) {
            combinations.retain(|combination| rank(combination) < first_left_out);
        }
    }
}

struct MatrixReader<'a> {
    written: &'a YamlNode,
    issues: &'a mut SpecIssues,
    failed: bool,
}

impl MatrixReader<'_> {
    fn report(&mut self, issue: SpecIssue) {
        self.failed = true;
        self.issues.push(issue);
    }

    fn span(&self, path: &[PathStep]) -> Span {
        self.written.locate(path)
    }

    fn axis(&mut self, name: &str, value: &YamlNode) -> Vec<MatrixValue> {
        let path = [PathStep::Key(name.to_owned())];
        self.check_axis_name(name, &path);
        let YamlData::List(items) = &value.data else {
            let found = describe(&value.to_json());
            let message = format!("the axis `{name}` expects a list of values, but this is {found}");
            let issue = SpecIssue::new(self.span(&path), message);
            self.report(issue.hint(format!("write `{name}: [...]`")));
            return Vec::new();
        };
        if items.is_empty() {
            self.report(SpecIssue::new(self.span(&path), format!("the axis `{name}` has no values")));
        }
        let mut seen = HashSet::new();
        let mut values = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let path = [path[0].clone(), PathStep::Index(position)];
            let Some(value) = self.value(name, item, &path) else { continue };
            if !seen.insert(value.text.clone()) {
                let message = format!("the axis `{name}` has the value `{}` twice", value.text);
                self.report(SpecIssue::new(self.span(&path), message));
            }
            values.push(value);
        }
        values
    }

    fn check_axis_name(&mut self, name: &str, path: &[PathStep]) {
        if !is_name(name) || RESERVED.contains(&name) {
            let message = format!("`{name}` cannot be the name of an axis");
            let issue = SpecIssue::new(self.written.locate_key(path), message);
            let reserved = "the names `stage` and `output` are reserved";
            self.report(issue.hint(if is_name(name) { reserved } else { NAME_RULE }));
        }
    }

    fn value(&mut self, axis: &str, value: &YamlNode, path: &[PathStep]) -> Option<MatrixValue> {
        let scalar = value.as_scalar().and_then(|scalar| Some((scalar, scalar.canonical_text()?)));
        if scalar.is_none() {
            let found = describe(&value.to_json());
            let message =
                format!("a value of the axis `{axis}` is text, a number, true or false, but this is {found}");
            self.report(SpecIssue::new(self.span(path), message));
        }
        scalar.map(|(scalar, text)| MatrixValue { value: scalar.clone(), text })
    }

    /// Reads the entries of `include` or `exclude`.
    fn combinations(&mut self, matrix: &YamlNode, key: &str) -> Vec<NamedValues> {
        let Some(value) = matrix.get(key) else { return Vec::new() };
        let first_step = PathStep::Key(key.to_owned());
        let YamlData::List(items) = &value.data else {
            let found = describe(&value.to_json());
            let message = format!("`{key}` expects a list of maps, but this is {found}");
            let issue = SpecIssue::new(self.span(&[first_step]), message);
            self.report(issue.hint(format!("for example `{key}: [{{ seed: 1 }}]`")));
            return Vec::new();
        };
        let mut combinations = Vec::with_capacity(items.len());
        for (position, item) in items.iter().enumerate() {
            let path = [first_step.clone(), PathStep::Index(position)];
            if item.entries().is_empty() {
                let message = format!("an entry of `{key}` is a map from axis to value");
                self.report(SpecIssue::new(self.span(&path), message));
                continue;
            }
            let mut named = NamedValues::with_capacity(item.entries().len());
            for entry in item.entries() {
                let path = [first_step.clone(), PathStep::Index(position), PathStep::Key(entry.key.clone())];
                if let Some(value) = self.value(&entry.key, &entry.value, &path) {
                    named.push((entry.key.clone(), value));
                }
            }
            combinations.push(named);
        }
        combinations
    }

    /// Reads `sample`.
    fn sample(&mut self, matrix: &YamlNode) -> Option<Sample> {
        let value = matrix.get("sample")?;
        let whole = |key: &str, default: Option<u64>| match value.get(key).map(YamlNode::as_scalar) {
            None => default,
            Some(Some(Scalar::Int(number))) => u64::try_from(*number).ok(),
            Some(Some(Scalar::Unsigned(number))) => Some(*number),
            Some(_) => None,
        };
        let known = value.entries().iter().all(|entry| entry.key == "count" || entry.key == "seed");
        let (count, seed) = (whole("count", None).filter(|&count| count > 0), whole("seed", Some(0)));
        match (count, seed) {
            (Some(count), Some(seed)) if known => {
                Some(Sample { count: usize::try_from(count).unwrap_or(usize::MAX), seed })
            }
            _ => {
                let message = "`sample` expects how many combinations to draw, and optionally a seed";
                let issue = SpecIssue::new(self.span(&[PathStep::Key("sample".to_owned())]), message);
                self.report(issue.hint("for example `sample: { count: 20, seed: 0 }`"));
                None
            }
        }
    }

    /// Returns all combinations of the values; the last axis changes fastest.
    fn product(&mut self, lists: &[Vec<MatrixValue>]) -> Option<Vec<Vec<MatrixValue>>> {
        let count = lists.iter().try_fold(1usize, |count, list| count.checked_mul(list.len()));
        let Some(count) = count.filter(|&count| count <= MOST_INSTANCES) else {
            let message = format!("this matrix has more than {MOST_INSTANCES} combinations");
            self.report(SpecIssue::new(self.written.span, message));
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

    /// Returns the position of an axis that an entry of `include` or `exclude` names.
    fn axis_position(&mut self, axes: &[String], axis: &str, key: &str, position: usize) -> Option<usize> {
        let at = axes.iter().position(|known| known == axis);
        if at.is_none() {
            let path =
                [PathStep::Key(key.to_owned()), PathStep::Index(position), PathStep::Key(axis.to_owned())];
            let issue =
                SpecIssue::new(self.written.locate_key(&path), format!("this matrix has no axis `{axis}`"));
            let hint = did_you_mean(axis, "its axes are", axes.iter().map(String::as_str));
            self.report(issue.maybe_hint(hint));
        }
        at
    }

    fn exclude(
        &mut self,
        axes: &[String],
        combinations: &mut Vec<Vec<MatrixValue>>,
        pattern: &NamedValues,
        position: usize,
    ) {
        let mut wanted = Vec::with_capacity(pattern.len());
        for (axis, value) in pattern {
            match self.axis_position(axes, axis, "exclude", position) {
                Some(at) => wanted.push((at, value)),
                None => return,
            }
        }
        let before = combinations.len();
        combinations
            .retain(|combination| !wanted.iter().all(|(at, value)| combination[*at].text == value.text));
        if combinations.len() == before {
            let path = [PathStep::Key("exclude".to_owned()), PathStep::Index(position)];
            let issue = SpecIssue::new(self.span(&path), "no combination matches this entry of `exclude`");
            let misspelt = wanted.iter().find_map(|(at, value)| {
                let known: Vec<&str> = combinations.iter().map(|values| &*values[*at].text).collect();
                let is_known = known.contains(&&*value.text);
                closest(&value.text, known).filter(|_| !is_known)
            });
            let hint = misspelt.map(|value| format!("did you mean `{value}`?"));
            let issue = issue.hint(hint.unwrap_or_else(|| "remove it, or correct its values".to_owned()));
            self.report(issue);
        }
    }

    fn include(
        &mut self,
        axes: &[String],
        combinations: &mut Vec<Vec<MatrixValue>>,
        include: &[NamedValues],
    ) {
        let texts = |combination: &[MatrixValue]| -> Vec<String> {
            combination.iter().map(|value| value.text.clone()).collect()
        };
        let mut seen: HashSet<Vec<String>> =
            if include.is_empty() { HashSet::new() } else { combinations.iter().map(|c| texts(c)).collect() };
        for (position, named) in include.iter().enumerate() {
            let path = [PathStep::Key("include".to_owned()), PathStep::Index(position)];
            if named.iter().any(|(axis, _)| self.axis_position(axes, axis, "include", position).is_none()) {
                continue;
            }
            let find =
                |axis: &String| named.iter().find(|(name, _)| name == axis).map(|(_, value)| value.clone());
            let missing: Vec<_> =
                axes.iter().filter(|axis| find(axis).is_none()).map(String::as_str).collect();
            if let Some(missing) = listed(missing) {
                let message = format!("an entry of `include` names every axis; {missing} is missing");
                self.report(SpecIssue::new(self.span(&path), message));
                continue;
            }
            let combination: Vec<_> = axes.iter().filter_map(find).collect();
            if !seen.insert(texts(&combination)) {
                self.report(SpecIssue::new(self.span(&path), "the matrix already has this combination"));
            }
            combinations.push(combination);
        }
    }
}
