//! Finds the project directory upwards from where `pipe` was started, as git and cargo do.

use std::path::{Component, Path, PathBuf};

use super::settings;

/// Returns the project directory of `start`: the nearest directory, from `start` upwards, that has pipelines or settings
/// of `pipe`. The search ends at the root of a git repository and below the home directory, so that an unrelated
/// `pipelines` directory is not picked up. Without a match, it is `start` itself.
pub(super) fn find(start: &Path, home: Option<&Path>) -> PathBuf {
    for directory in start.ancestors() {
        if directory != start && home == Some(directory) {
            break;
        }
        if is_project(directory) {
            return directory.to_owned();
        }
        if directory.join(".git").exists() {
            break;
        }
    }
    start.to_owned()
}

fn is_project(directory: &Path) -> bool {
    let is_pipeline = |path: &Path| path.extension().is_some_and(|ext| ext == "yaml" || ext == "yml");
    let mut pipelines = std::fs::read_dir(directory.join("pipelines")).into_iter().flatten().flatten();
    pipelines.any(|entry| is_pipeline(&entry.path())) || directory.join(settings::FILE).is_file()
}

/// Returns a path that was typed in `start` as seen from `root`, which is `start` or a directory above it.
pub(super) fn seen_from(root: &Path, start: &Path, typed: &Path) -> PathBuf {
    if typed.is_absolute() || typed == Path::new("-") || start == root {
        return typed.to_owned();
    }
    let mut path = start.strip_prefix(root).unwrap_or(start).to_owned();
    for component in typed.components() {
        match component {
            Component::CurDir => {}
            // Only what leads down from the root can be taken back: `..` above the root stays.
            Component::ParentDir if path.file_name().is_some() => {
                path.pop();
            }
            other => path.push(other),
        }
    }
    if path.as_os_str().is_empty() { PathBuf::from(".") } else { path }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_directory_with_pipelines_is_the_project() {
        let top = tempfile::tempdir().unwrap();
        let top = top.path();
        let deep = top.join("home/project/notes/2026");
        std::fs::create_dir_all(&deep).unwrap();
        assert_eq!(find(&deep, None), deep, "there is no project");

        std::fs::create_dir_all(top.join("home/project/pipelines")).unwrap();
        assert_eq!(find(&deep, None), deep, "a directory without a pipeline is not a project");
        std::fs::write(top.join("home/project/pipelines/x.yaml"), "").unwrap();
        assert_eq!(find(&deep, None), top.join("home/project"));
        assert_eq!(find(&top.join("home/project/pipelines"), None), top.join("home/project"));

        std::fs::create_dir(top.join("home/project/notes/.git")).unwrap();
        assert_eq!(find(&deep, None), deep, "another repository is not part of the project");
    }

    #[test]
    fn the_home_directory_is_not_a_project_of_everything_below_it() {
        let home = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(home.path().join("pipelines")).unwrap();
        std::fs::write(home.path().join("pipelines/x.yaml"), "").unwrap();
        std::fs::create_dir(home.path().join("other")).unwrap();
        assert_eq!(find(&home.path().join("other"), Some(home.path())), home.path().join("other"));
        assert_eq!(find(home.path(), Some(home.path())), home.path());
    }

    #[test]
    fn a_typed_path_is_rewritten_for_the_project_directory() {
        let seen = |typed: &str| {
            let path = seen_from(Path::new("/p"), Path::new("/p/a/b"), Path::new(typed));
            path.to_str().unwrap().to_owned()
        };
        assert_eq!(seen("x.csv"), "a/b/x.csv");
        assert_eq!(seen("../x.csv"), "a/x.csv");
        assert_eq!(seen("../../pipelines/x.yaml"), "pipelines/x.yaml");
        assert_eq!(seen("../../.."), "..");
        assert_eq!(seen("../.."), ".");
        assert_eq!(seen("/x"), "/x");
        assert_eq!(seen("-"), "-");
        assert_eq!(seen_from(Path::new("/p"), Path::new("/p"), Path::new("../y")), Path::new("../y"));
    }
}
