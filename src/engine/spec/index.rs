//! An index of instances that finds those that a reference selects without a full search.

use std::collections::HashMap;
use std::ops::Range;

use super::pipeline::InstanceId;
use super::spec_issue::Suggestions;
use pipe_core::reference::{Selector, SelectorTerm, StageRef};
use pipe_core::suggest::listed;

/// Why a reference selects nothing.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message}{}", hint.as_ref().map(|hint| format!("; {hint}")).unwrap_or_default())]
pub struct SelectError {
    pub message: String,
    pub hint: Option<String>,
}

/// The stages of a pipeline with their instances, by name and axis value.
#[derive(Debug, Default)]
pub(super) struct StageIndex<'a> {
    stages: Vec<IndexedStage<'a>>,
    by_name: HashMap<&'a str, usize>,
    pub suggestions: Suggestions,
}

#[derive(Debug)]
struct IndexedStage<'a> {
    name: &'a str,
    first: usize,
    count: usize,
    axes: Vec<IndexedAxis<'a>>,
}

#[derive(Debug)]
struct IndexedAxis<'a> {
    name: &'a str,
    /// In the order of their first appearance.
    values: Vec<&'a str>,
    /// Positions within the stage, ascending.
    holders: HashMap<&'a str, Vec<usize>>,
}

impl<'a> StageIndex<'a> {
    /// Builds the index. The instances of one stage must follow each other.
    pub(super) fn new(ids: impl IntoIterator<Item = &'a InstanceId>) -> Self {
        let mut index = Self::default();
        for (position, id) in ids.into_iter().enumerate() {
            index.push(position, id);
        }
        index
    }

    /// Adds a stage that has no instances because of a reported issue.
    pub(super) fn add_empty(&mut self, name: &'a str) {
        self.by_name.entry(name).or_insert_with(|| {
            self.stages.push(IndexedStage { name, first: 0, count: 0, axes: Vec::new() });
            self.stages.len() - 1
        });
    }

    fn push(&mut self, position: usize, id: &'a InstanceId) {
        if self.stages.last().is_none_or(|stage| stage.name != id.stage) {
            let empty = |(name, _): &'a (String, String)| IndexedAxis {
                name,
                values: Vec::new(),
                holders: HashMap::new(),
            };
            let axes = id.axes.iter().map(empty).collect();
            self.by_name.insert(&id.stage, self.stages.len());
            self.stages.push(IndexedStage { name: &id.stage, first: position, count: 0, axes });
        }
        let Some(stage) = self.stages.last_mut() else { return };
        for (axis, (_, value)) in stage.axes.iter_mut().zip(&id.axes) {
            let IndexedAxis { values, holders, .. } = axis;
            let holders = holders.entry(value).or_insert_with(|| {
                values.push(value);
                Vec::new()
            });
            holders.push(stage.count);
        }
        stage.count += 1;
    }

    /// Returns the positions of the instances of a stage.
    pub(super) fn positions(&self, stage: &str) -> Range<usize> {
        let stage = self.by_name.get(stage).map(|&stage| &self.stages[stage]);
        stage.map_or(0..0, |stage| stage.first..stage.first + stage.count)
    }

    /// Returns how many instances a reference selects; 0 if it is wrong.
    pub(super) fn count(&self, reference: &StageRef) -> usize {
        let Some(stage) = self.by_name.get(reference.stage()).map(|&stage| &self.stages[stage]) else {
            return 0;
        };
        match reference.selector() {
            Selector::Terms(terms) => {
                stage.select(terms, &Suggestions::none()).map_or(0, |selected| selected.len())
            }
            _ => stage.count,
        }
    }

    pub(super) fn names(&self) -> impl Iterator<Item = &'a str> + Clone {
        self.stages.iter().map(|stage| stage.name)
    }

    /// Returns the positions of the instances that a reference selects, ascending. Empty only for a stage that was added
    /// by [`Self::add_empty`].
    pub(super) fn find(&self, reference: &StageRef) -> Result<Vec<usize>, SelectError> {
        let Some(stage) = self.by_name.get(reference.stage()).map(|&stage| &self.stages[stage]) else {
            return Err(SelectError {
                message: format!("there is no stage `{}`", reference.stage()),
                hint: self.suggestions.did_you_mean(reference.stage(), "the stages are", self.names()),
            });
        };
        match reference.selector() {
            Selector::Terms(terms) if stage.count > 0 => stage.select(terms, &self.suggestions),
            _ => Ok((stage.first..stage.first + stage.count).collect()),
        }
    }
}

impl IndexedStage<'_> {
    fn select(&self, terms: &[SelectorTerm], suggestions: &Suggestions) -> Result<Vec<usize>, SelectError> {
        let mut lists = Vec::with_capacity(terms.len());
        for term in terms {
            lists.push(self.holders(term, terms, suggestions)?);
        }
        lists.sort_by_key(|list| list.len());
        let Some((shortest, others)) = lists.split_first() else { return Ok(Vec::new()) };
        let wanted = |position: &&usize| others.iter().all(|list| list.binary_search(position).is_ok());
        let found: Vec<_> = shortest.iter().filter(wanted).map(|position| self.first + position).collect();
        if found.is_empty() {
            let message = format!("no instance of `{}` has these values together", self.name);
            return Err(SelectError { message, hint: None });
        }
        Ok(found)
    }

    fn holders(
        &self,
        term: &SelectorTerm,
        terms: &[SelectorTerm],
        suggestions: &Suggestions,
    ) -> Result<&[usize], SelectError> {
        let SelectorTerm { axis, value } = term;
        if let Some(name) = axis {
            let Some(axis) = self.axes.iter().find(|axis| axis.name == name) else {
                return Err(self.no_axis(name, suggestions));
            };
            return axis.holders.get(value.as_str()).map(Vec::as_slice).ok_or_else(|| SelectError {
                message: format!("`{}` has no instance with `{name}={value}`", self.name),
                hint: suggestions.did_you_mean(value, "its values are", axis.values.iter().copied()),
            });
        }
        // A bare value can only belong to an axis that is not named in the same brackets.
        let free = |axis: &&IndexedAxis| !terms.iter().any(|term| term.axis.as_deref() == Some(axis.name));
        let mut holding = self.axes.iter().filter(free).filter_map(|axis| {
            let holders = axis.holders.get(value.as_str())?;
            Some((axis.name, holders.as_slice()))
        });
        match (holding.next(), holding.next()) {
            (Some((_, holders)), None) => Ok(holders),
            (Some((one, _)), Some((other, _))) => Err(SelectError {
                message: format!("`{value}` is a value of `{one}` and of `{other}`"),
                hint: Some(format!("write `{one}={value}` or `{other}={value}`")),
            }),
            (None, _) if self.axes.is_empty() => Err(self.no_axis(value, suggestions)),
            (None, _) => Err(SelectError {
                message: format!("`{}` has no axis with the value `{value}`", self.name),
                hint: suggestions.did_you_mean(
                    value,
                    "its values are",
                    self.axes.iter().filter(free).flat_map(|axis| axis.values.iter().copied()),
                ),
            }),
        }
    }

    fn no_axis(&self, name: &str, suggestions: &Suggestions) -> SelectError {
        if self.axes.is_empty() {
            return SelectError {
                message: format!("`{}` has no matrix, so nothing can be selected in brackets", self.name),
                hint: Some(format!("write `{}`", self.name)),
            };
        }
        SelectError {
            message: format!("`{}` has no axis `{name}`", self.name),
            hint: suggestions.did_you_mean(name, "its axes are", self.axes.iter().map(|axis| axis.name)),
        }
    }
}

/// Returns the hint for a reference that selects several instances where one is needed.
pub(super) fn pick_one_hint<'i>(
    reference: &StageRef,
    ids: impl Iterator<Item = &'i InstanceId>,
) -> Option<String> {
    let names: Vec<_> = ids.map(ToString::to_string).collect();
    let list = listed(names.iter().map(String::as_str))?;
    let stage = reference.stage();
    Some(format!("pick one of {list}, or process all of them with `each: {stage}` and `${{each}}`"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ids() -> Vec<InstanceId> {
        let mut ids = vec![InstanceId { stage: "data".into(), axes: Vec::new() }];
        for variant in ["adaptive", "static"] {
            for seed in ["0", "1"] {
                let axes = [("variant", variant), ("seed", seed), ("fold", seed)];
                let axes = axes.map(|(axis, value)| (axis.to_owned(), value.to_owned())).to_vec();
                ids.push(InstanceId { stage: "train".into(), axes });
            }
        }
        ids
    }

    fn find(text: &str) -> Result<Vec<usize>, String> {
        let ids = ids();
        let index = StageIndex::new(&ids);
        index.find(&text.parse().unwrap()).map_err(|error| error.to_string())
    }

    #[test]
    fn selectors_choose_instances() {
        assert_eq!(find("data"), Ok(vec![0]));
        assert_eq!(find("train"), Ok(vec![1, 2, 3, 4]));
        assert_eq!(find("train[*]"), Ok(vec![1, 2, 3, 4]));
        assert_eq!(find("train[static]"), Ok(vec![3, 4]));
        assert_eq!(find("train[seed=1]"), Ok(vec![2, 4]));
        assert_eq!(find("train[adaptive,seed=1]"), Ok(vec![2]));
        assert_eq!(find("train[seed=1,1]"), Ok(vec![2, 4]), "the bare 1 can only be the fold");
    }

    #[test]
    fn a_reference_that_selects_nothing_is_explained() {
        for (text, message) in [
            ("trian", "there is no stage `trian`; did you mean `train`?"),
            ("train[sed=1]", "`train` has no axis `sed`; did you mean `seed`?"),
            ("train[seed=7]", "`train` has no instance with `seed=7`; its values are: `0`, `1`"),
            ("train[adaptve]", "`train` has no axis with the value `adaptve`; did you mean `adaptive`?"),
            ("train[1]", "`1` is a value of `seed` and of `fold`; write `seed=1` or `fold=1`"),
            ("train[seed=1,fold=0]", "no instance of `train` has these values together"),
            ("data[x]", "`data` has no matrix, so nothing can be selected in brackets; write `data`"),
        ] {
            assert_eq!(find(text), Err(message.to_owned()));
        }
    }
}
