//! `pipe data`: lists, describes and downloads the registered data sets.

use std::path::Path;

use serde_json::json;

use super::args::DataCommand;
use super::data_files::fetch;
use super::exit::{Exit, Failure, Outcome};
use super::project::Project;
use super::table::Grid;
use super::{print_json, print_status, print_text};
use pipe_engine::store::TemporaryDirectory;
use pipe_ml::data::describe;
use pipe_ml::data::locate::Locator;
use pipe_ml::data::registry::{self, KnownDataSet};
use pipe_ml::data::split_data::SplitData;
use pipe_ml::data::stats::Stats;

/// Runs `pipe data`.
pub(super) fn data(project: &Project, command: &DataCommand) -> Outcome {
    match command {
        DataCommand::List { json: true } => print_json(&registry::entries()),
        DataCommand::List { json: false } => {
            let mut grid = Grid::new(&["name", "train rows", "test rows", "features", "labels", "here", ""])
                .right_aligned(&[1, 2, 3, 4])
                .wrapped(&[6])
                .gap(2);
            for row in describe::list(&offline(project)) {
                grid.row(row);
            }
            print_text(&grid.to_string())
        }
        DataCommand::Info { dataset, json } => info(project, dataset, *json),
        DataCommand::Fetch { dataset } => {
            let locator = Locator::new(&project.data_dir, false);
            print_paths(find(dataset)?, |file| fetch(&locator, dataset, file))
        }
        DataCommand::Path { dataset } => {
            let locator = offline(project);
            print_paths(find(dataset)?, |file| {
                let found =
                    locator.find(dataset, file).map_err(|error| Failure::bad_input(error.to_string()))?;
                let directory = locator.directory().display();
                found.ok_or_else(|| {
                    Failure::bad_input(format!(
                        "the file `{file}` of the data set `{dataset}` is not in {directory}; \
                         `pipe data fetch {dataset}` downloads it"
                    ))
                })
            })
        }
    }
}

/// Returns a locator that downloads nothing.
fn offline(project: &Project) -> Locator {
    Locator::new(&project.data_dir, true)
}

/// Finds a data set in the registry.
fn find(dataset: &str) -> Result<&'static KnownDataSet, Failure> {
    registry::find(dataset).map_err(|error| Failure::bad_input(error.to_string()))
}

/// Prints the path of each file of a data set.
fn print_paths(
    entry: &KnownDataSet,
    mut path_of: impl FnMut(&str) -> Result<std::path::PathBuf, Failure>,
) -> Outcome {
    let mut out = String::new();
    for file in &entry.files {
        out.push_str(&format!("{}\n", path_of(&file.name)?.display()));
    }
    print_text(&out)
}

/// Describes a registered data set, or a directory that a `load` or `synthetic` stage wrote.
fn info(project: &Project, dataset: &str, as_json: bool) -> Outcome {
    let failure = |error: pipe_ml::data::error::DataError| Failure::bad_input(error.to_string());
    if Path::new(dataset).join("meta.json").is_file() {
        let data = SplitData::open_unverified(Path::new(dataset)).map_err(failure)?;
        let stats = describe::dataset_stats(&data).map_err(failure)?;
        return if as_json {
            print_json(&json!({ "meta": data.meta(), "parts": stats_json(&stats) }))
        } else {
            print_text(&describe::statistics(&stats))
        };
    }
    let entry = find(dataset)?;
    let locator = offline(project);
    let scratch = TemporaryDirectory::new()?;
    let threads = std::thread::available_parallelism().map_or(1, usize::from);
    let stats = describe::measure(entry, &locator, &scratch, threads).map_err(failure)?;
    if as_json {
        return print_json(&json!({ "entry": entry, "parts": stats.as_deref().map(stats_json) }));
    }
    print_text(&describe::info(entry, &locator))?;
    match stats {
        Some(stats) => print_text(&format!("\n{}", describe::statistics(&stats))),
        None => {
            print_status(&format!(
                "some files are missing, so there are no statistics; `pipe data fetch {dataset}` downloads them"
            ));
            Ok(Exit::Done)
        }
    }
}

fn stats_json(parts: &[(String, Stats)]) -> serde_json::Value {
    let part = |(name, stats): &(String, Stats)| {
        json!({
            "part": name,
            "rows": stats.rows,
            "features": stats.features,
            "labels": stats.labels,
            "labels_per_row": stats.labels_per_row(),
            "features_per_row": stats.features_per_row(),
            "rows_without_labels": stats.rows_without_labels,
            "rows_without_features": stats.rows_without_features,
            "share_of_labels_under": { "5": stats.share_under(5), "10": stats.share_under(10), "100": stats.share_under(100) },
        })
    };
    parts.iter().map(part).collect()
}
