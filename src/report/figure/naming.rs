//! Groups runs, and gives each group a name and a style that are the same in every figure of a stage.

use std::collections::{BTreeMap, BTreeSet};

use super::chart::style::SeriesStyle;
use pipe_ml::metric::marked::{Marked, Protocol};
use pipe_ml::metric::spread::SeedSpread;

/// The axes of a run and their values.
pub type RunAxes = Vec<(String, String)>;

/// An axis of this name is left out of the names of groups: the mark of the oracle protocol says the same, and cannot be
/// wrong.
const PROTOCOL_AXIS: &str = "protocol";
/// The name of a run that has none of the axes in which the runs differ.
const OTHER: &str = "other";

/// The names and styles of groups of runs.
pub struct Naming {
    mean_over: String,
    names: BTreeMap<String, String>,
    /// The axes in which the runs differ.
    varying: BTreeSet<String>,
    /// The ids of the groups, in the order of the pipeline.
    ids: Vec<String>,
    /// The names of the groups, in the same order.
    group_names: Vec<String>,
}

/// Runs that differ only in the axis that values are averaged over.
#[derive(Debug, Clone)]
pub struct RunGroup<T> {
    pub name: String,
    pub style: SeriesStyle,
    /// The position among all groups.
    pub index: usize,
    pub runs: Marked<Vec<T>>,
}

/// The error for two results that a figure could not tell apart.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "two results have the same axes ({axes}), so no figure could tell them apart; give the stages that produce them \
     different axes, or plot them in two stages"
)]
pub struct SameAxesError {
    axes: String,
}

impl Naming {
    /// Creates the names for all runs that the figures of a stage show.
    pub fn new(runs: &[&RunAxes], mean_over: &str, names: &BTreeMap<String, String>) -> Self {
        let in_names = |axis: &str| axis != mean_over && axis != PROTOCOL_AXIS;
        let all: BTreeSet<&str> =
            runs.iter().flat_map(|run| run.iter()).map(|(axis, _)| axis.as_str()).collect();
        let values = |axis: &str| runs.iter().map(|run| value(run, axis)).collect::<BTreeSet<_>>().len();
        let usable: Vec<&str> = all.into_iter().filter(|axis| in_names(axis)).collect();
        let mut varying: BTreeSet<String> =
            usable.iter().filter(|axis| values(axis) > 1).map(|&axis| axis.to_owned()).collect();
        if varying.is_empty() {
            varying = usable.into_iter().map(str::to_owned).collect();
        }
        let mut naming = Self {
            mean_over: mean_over.to_owned(),
            names: names.clone(),
            varying,
            ids: Vec::new(),
            group_names: Vec::new(),
        };
        for run in runs {
            let id = naming.id(run);
            if !naming.ids.contains(&id) {
                naming.ids.push(id);
            }
        }
        // Names depend on whether there are several groups.
        for run in runs {
            let index = naming.index(run);
            if index == naming.group_names.len() {
                let name = naming.name(run);
                naming.group_names.push(name);
            }
        }
        naming
    }

    /// Returns the id of a run's group, written like a reference to instances: `adaptive, lr=0.1`.
    fn id(&self, run: &RunAxes) -> String {
        self.parts(run).join(", ")
    }

    fn parts(&self, run: &RunAxes) -> Vec<String> {
        let named = run.iter().filter(|(axis, _)| self.varying.contains(axis));
        let part = |(axis, value): &(String, String)| match value.parse::<f64>() {
            Ok(_) => format!("{axis}={value}"),
            Err(_) => value.clone(),
        };
        named.map(part).collect()
    }

    fn name(&self, run: &RunAxes) -> String {
        let mut parts = self.parts(run);
        if parts.is_empty() && self.ids.len() > 1 {
            parts.push(OTHER.to_owned());
        }
        if let Some(name) = self.names.get(&parts.join(", ")) {
            return name.clone();
        }
        let renamed = parts.iter().map(|part| self.names.get(part).unwrap_or(part).as_str());
        renamed.collect::<Vec<_>>().join(", ")
    }

    /// Returns the keys of `names` that match no run.
    pub fn unused_names<'a>(&'a self, runs: &[&RunAxes]) -> Vec<&'a str> {
        let mut used: BTreeSet<String> = BTreeSet::from([OTHER.to_owned()]);
        for run in runs {
            used.insert(self.id(run));
            used.extend(self.parts(run));
        }
        self.names.keys().filter(|name| !used.contains(*name)).map(String::as_str).collect()
    }

    /// Groups runs by name and protocol. Results of two protocols are never in one group.
    pub fn groups<T>(&self, runs: Vec<(&RunAxes, Marked<T>)>) -> Result<Vec<RunGroup<T>>, SameAxesError> {
        let mut seen = BTreeSet::new();
        let mut groups: BTreeMap<(usize, Protocol), (String, Vec<T>)> = BTreeMap::new();
        for (axes, run) in runs {
            let (protocol, run) = run.reveal();
            if !seen.insert((axes, protocol)) {
                let pairs: Vec<String> = axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
                return Err(SameAxesError { axes: pairs.join(",") });
            }
            let index = self.index(axes);
            let group = groups.entry((index, protocol)).or_insert_with(|| (self.name(axes), Vec::new()));
            group.1.push(run);
        }
        let group = |((index, protocol), (name, runs))| RunGroup {
            name,
            style: SeriesStyle::nth(index),
            index,
            runs: Marked::new(protocol, runs),
        };
        Ok(groups.into_iter().map(group).collect())
    }

    /// Returns the position of a run's group among all groups.
    pub fn index(&self, run: &RunAxes) -> usize {
        let id = self.id(run);
        self.ids.iter().position(|known| *known == id).unwrap_or(self.ids.len())
    }

    /// Returns the names of all groups, in the order of the pipeline.
    pub fn group_names(&self) -> Vec<String> {
        self.group_names.clone()
    }

    /// Returns a note such as `Mean of 5 runs (over seed); band: ± 1 standard deviation.`, or nothing for single runs.
    pub fn mean_note<T>(&self, groups: &[RunGroup<T>], spread: &str) -> String {
        self.mean_note_of(&groups.iter().map(RunGroup::len).collect(), spread)
    }

    /// Returns the same note for these numbers of runs.
    pub fn mean_note_of(&self, counts: &BTreeSet<usize>, spread: &str) -> String {
        let (Some(least), Some(most)) = (counts.first(), counts.last()) else { return String::new() };
        let runs = match (least, most) {
            (_, 1) => return String::new(),
            (least, most) if least == most => format!("{most}"),
            (least, most) => format!("{least} to {most}"),
        };
        let spread = if spread.is_empty() { ".".to_owned() } else { format!("; {spread}") };
        format!("Mean of {runs} runs (over {}){spread}", self.mean_over)
    }
}

impl<T> RunGroup<T> {
    /// Returns the number of runs.
    pub fn len(&self) -> usize {
        self.runs.as_ref().reveal().1.len()
    }

    /// Whether the group has no runs.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn value<'a>(run: &'a RunAxes, axis: &str) -> Option<&'a str> {
    run.iter().find(|(name, _)| name == axis).map(|(_, value)| value.as_str())
}

/// Returns mean and spread of the finite values. The order of the values does not change a single bit.
pub fn summary(values: impl IntoIterator<Item = f64>) -> Option<SeedSpread> {
    let mut finite: Vec<f64> = values.into_iter().filter(|value| value.is_finite()).collect();
    finite.sort_by(f64::total_cmp);
    SeedSpread::over(&finite)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn axes(pairs: &[(&str, &str)]) -> RunAxes {
        pairs.iter().map(|(axis, value)| (axis.to_string(), value.to_string())).collect()
    }

    fn names(runs: &[RunAxes], names: &[(&str, &str)]) -> Vec<(String, usize)> {
        let names = names.iter().map(|(from, to)| (from.to_string(), to.to_string())).collect();
        let runs: Vec<&RunAxes> = runs.iter().collect();
        let naming = Naming::new(&runs, "seed", &names);
        let marked = runs.into_iter().map(|run| (run, Marked::new(Protocol::Honest, ()))).collect();
        naming.groups(marked).unwrap().into_iter().map(|group| (group.name.clone(), group.len())).collect()
    }

    #[test]
    fn runs_are_named_after_the_axes_in_which_they_differ() {
        let run =
            |variant, lr, seed| axes(&[("variant", variant), ("data", "d"), ("lr", lr), ("seed", seed)]);
        let runs = [run("static", "0.1", "0"), run("adaptive", "0.1", "0"), run("adaptive", "0.1", "1")];
        assert_eq!(names(&runs, &[]), [("static".into(), 1), ("adaptive".into(), 2)]);
        assert_eq!(names(&runs, &[("static", "Fixed θ")]), [("Fixed θ".into(), 1), ("adaptive".into(), 2)]);
        let runs = [run("static", "0.1", "0"), run("static", "0.2", "0")];
        assert_eq!(names(&runs, &[]), [("lr=0.1".into(), 1), ("lr=0.2".into(), 1)]);
        assert_eq!(
            names(&[axes(&[]), axes(&[("variant", "a")])], &[]),
            [("other".into(), 1), ("a".into(), 1)]
        );
        assert_eq!(names(&[axes(&[("seed", "0")])], &[]), [(String::new(), 1)]);
    }

    #[test]
    fn results_of_two_protocols_are_never_in_one_group() {
        let run = axes(&[("variant", "a"), ("protocol", "honest")]);
        let oracle = axes(&[("variant", "a"), ("protocol", "oracle")]);
        let naming = Naming::new(&[&run, &oracle], "seed", &BTreeMap::new());
        let runs =
            vec![(&run, Marked::new(Protocol::Honest, 1)), (&oracle, Marked::new(Protocol::Oracle, 2))];
        let groups = naming.groups(runs).unwrap();
        assert_eq!(groups.len(), 2);
        assert_eq!((groups[0].name.as_str(), groups[0].index), (groups[1].name.as_str(), groups[1].index));
    }

    #[test]
    fn results_with_the_same_axes_are_rejected() {
        let run = axes(&[("variant", "a")]);
        let naming = Naming::new(&[&run], "seed", &BTreeMap::new());
        let twice =
            vec![(&run, Marked::new(Protocol::Honest, ())), (&run, Marked::new(Protocol::Honest, ()))];
        let error = naming.groups(twice).unwrap_err().to_string();
        assert!(error.contains("(variant=a)"), "{error}");
    }

    #[test]
    fn the_order_of_the_runs_does_not_change_a_bit() {
        let values = [0.1, 0.7, 1e-9, 0.3];
        assert_eq!(summary(values), summary([values[3], values[1], f64::NAN, values[0], values[2]]));
        assert_eq!(summary([f64::NAN]), None);
    }
}
