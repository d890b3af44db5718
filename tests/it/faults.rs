//! The short part of the campaign of docs/faults.md. `make faults` runs a longer one.

use std::path::Path;
use std::time::Duration;

use pipe_faults::campaign::{self, Options};
use pipe_faults::golden::Golden;

#[test]
fn one_run_recovers_from_every_injected_fault_with_the_right_results() {
    let temporary = Path::new(env!("CARGO_TARGET_TMPDIR"));
    let golden = Golden::new(Path::new(env!("CARGO_BIN_EXE_pipe")), temporary).unwrap();
    let options = Options {
        budget: Duration::from_secs(60),
        seed: 1,
        jobs: 2,
        only: Vec::new(),
        trials: 40,
        failures: temporary.join("faults"),
    };
    let report = campaign::run(&golden, &options, &|line| println!("{line}")).unwrap();
    for (class, count, lacks) in &report.classes {
        match lacks {
            Some(lacks) => {
                println!("skipped: {}, because {lacks}", class.name);
                let must_be_installed =
                    lacks.contains("is not installed") && std::env::var_os("PIPE_CI").is_some();
                assert!(!must_be_installed, "{lacks}; see .ci/packages");
            }
            None => assert!(count.trials > 0, "no trial of {} was made: {}", class.name, count.broken.1),
        }
    }
    assert!(report.is_clean(), "replay the failures with `pipe-faults replay FILE`:\n{}", report.table());
}
