//! Predictions in an npy file: a matrix with a row for each row and a column for each label. Decisions are booleans or
//! whole numbers, scores are numbers with a fraction.

use super::ExpectedPredictions;
use crate::data::compress::InputFile;
use crate::data::dense::npy;
use crate::data::error::DataError;
use crate::metric::block::DecisionBlock;

/// Reads the matrix and passes it on in blocks of rows, so that it need not fit in memory.
pub(super) fn read<E: From<DataError>>(
    expected: &ExpectedPredictions,
    input: &mut InputFile,
    mut take: impl FnMut(&DecisionBlock) -> Result<(), E>,
) -> Result<(), E> {
    let (layout, order) = npy::read_header(input)?;
    let path = input.path().to_owned();
    let (rows, labels) = (expected.rows, expected.labels);
    if (layout.rows, layout.cols) != (rows as u64, labels as u64) {
        let reason = format!(
            "its shape is ({}, {}), but the evaluated part has {rows} rows and {labels} labels",
            layout.rows, layout.cols
        );
        return Err(DataError::file(&path, reason).into());
    }
    let scored = layout.element.is_float();
    if !scored {
        expected.check_no_threshold(&path)?;
    }
    let check = |value: f32| match (scored, value) {
        (true, _) => expected.cut().check(value),
        (false, 0.0 | 1.0) => Ok(value),
        (false, _) => {
            Err(format!("the decision {value} must be 0 or 1; scores are written as floating-point numbers"))
        }
    };
    let at_once = expected.rows_at_once() * labels;
    let mut values: Vec<f32> = Vec::with_capacity(at_once.min(rows * labels));
    let mut first = 0;
    let mut pass_on = |values: &mut Vec<f32>| {
        let block = block(expected, scored, first, std::mem::take(values));
        first += block.rows;
        take(&block)
    };
    layout.stream(input, order, |position, run| {
        for (offset, &value) in (0..).zip(run) {
            let value = check(value).map_err(|reason| {
                let (row, label) = position.after(offset);
                DataError::file(&path, format!("row {row}, label {label}: {reason}"))
            })?;
            values.push(value);
            if values.len() == at_once {
                pass_on(&mut values)?;
            }
        }
        Ok::<(), E>(())
    })?;
    if values.is_empty() { Ok(()) } else { pass_on(&mut values) }
}

fn block(expected: &ExpectedPredictions, scored: bool, first: usize, values: Vec<f32>) -> DecisionBlock {
    let decided = expected.cut().decide(first, expected.labels, values);
    if scored {
        return decided;
    }
    let DecisionBlock { first, rows, labels, predicted, .. } = decided;
    DecisionBlock { first, rows, labels, predicted, ..DecisionBlock::default() }
}
