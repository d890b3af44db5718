//! The names under which damaged files are kept for the user.

use std::path::{Path, PathBuf};

/// Returns a path beside a damaged file where nothing is yet: `x.bad`, or else `x.bad2`, `x.bad3` and so on.
pub fn free_path(damaged: &Path) -> PathBuf {
    let named = |number: u32| {
        let mut name = damaged.as_os_str().to_owned();
        name.push(".bad");
        if number > 1 {
            name.push(number.to_string());
        }
        PathBuf::from(name)
    };
    (1..).map(named).find(|path| path.symlink_metadata().is_err()).unwrap_or_else(|| named(1))
}
