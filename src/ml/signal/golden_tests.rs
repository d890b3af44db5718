//! Tests of the signals against the golden vectors.

use super::idf::Idf;
use super::propagate::{own_label_share, propagate};
use super::sparse_rows::SparseRows;
use pipe_golden::{assert_close, flat, matrix, read, vector};

#[test]
fn the_global_signal_matches_the_golden_vectors() {
    let golden = read("signals");
    let counts: Vec<u64> = vector(&golden["label_freq"]).iter().map(|&count| count as u64).collect();
    for (eps, field) in [(1e-8, "IDF_eps1e8"), (1.0, "IDF_eps1")] {
        let idf = Idf::new(1000, counts.clone(), eps);
        assert_close(field, &idf.values, &vector(&golden[field]), 1e-12);
    }
}

#[test]
fn the_local_signal_matches_with_and_without_the_self_term() {
    let golden = read("signals");
    let y = SparseRows::from_dense(&matrix(&golden["Y"]));
    for (leave_self_out, field) in [(false, "KNN"), (true, "KNN_loso")] {
        let ours = propagate(&y, 9, leave_self_out, 1e-8).to_dense(9).concat();
        assert_close(field, &ours, &flat(&golden[field]), 1e-12);
    }
}

#[test]
fn the_global_signal_of_the_released_code_matches() {
    let golden = read("signals");
    let shares: Vec<f64> = matrix(&golden["Y"])
        .iter()
        .flat_map(|row| {
            let count = row.iter().sum::<f64>() as usize;
            row.iter().map(|y| y * own_label_share(count, 1e-8)).collect::<Vec<_>>()
        })
        .collect();
    assert_close("TF_released", &shares, &flat(&golden["TF_released"]), 1e-12);
}
