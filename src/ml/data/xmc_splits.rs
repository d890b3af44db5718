//! Split-index files of the XMC repository: each column is a split, and each line has one row number per split, counted from
//! 1.

use super::artifact::DataSetPart;
use super::compress::InputFile;
use super::error::{DataError, Fault};
use super::read_report::{Repair, Repairs};
use super::source::DataSource;

/// Returns the parts that the split files of the source define, or `parts` if it has none. A file with several columns
/// defines the parts `name`, `name.1`, `name.2`, ...
pub(crate) fn read_splits(
    source: &DataSource,
    parts: Vec<DataSetPart>,
    rows: usize,
    repairs: &mut Repairs,
) -> Result<Vec<DataSetPart>, DataError> {
    if source.splits.is_empty() {
        return Ok(parts);
    }
    if parts.len() != 1 {
        let message = "split-index files need a source with one file of rows, not with several parts";
        return Err(DataError::Request(message.into()));
    }
    let mut all = Vec::new();
    for (name, path) in &source.splits {
        let text = InputFile::open(path, 1)?.read_all()?;
        let columns = parse_split(&text, rows).map_err(|fault| fault.locate(path, &text, 0))?;
        if columns.is_empty() {
            return Err(DataError::file(path, "it contains no row numbers"));
        }
        for (number, mut rows) in columns.into_iter().enumerate() {
            let before = rows.len();
            rows.sort_unstable();
            rows.dedup();
            repairs.add(Repair::RepeatedSplitRowsDropped, (before - rows.len()) as u64);
            let name = if number == 0 { name.clone() } else { format!("{name}.{number}") };
            all.push(DataSetPart { name, rows });
        }
    }
    Ok(all)
}

fn parse_split(text: &[u8], rows: usize) -> Result<Vec<Vec<u32>>, Fault> {
    let mut columns: Vec<Vec<u32>> = Vec::new();
    let mut start = 0;
    for line in text.split(|&b| b == b'\n') {
        let fields: Vec<&[u8]> =
            line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).collect();
        if columns.is_empty() {
            columns = vec![Vec::new(); fields.len()];
        }
        if !fields.is_empty() && fields.len() != columns.len() {
            let (has, first) = (fields.len(), columns.len());
            return Err(Fault::new(
                start,
                format!("this line has {has} columns, but the first one has {first}"),
            ));
        }
        for (column, field) in columns.iter_mut().zip(&fields) {
            let row = std::str::from_utf8(field).ok().and_then(|field| field.parse::<u32>().ok());
            match row {
                Some(row) if row >= 1 && row as usize <= rows => column.push(row - 1),
                _ => {
                    let text = String::from_utf8_lossy(field);
                    return Err(Fault::new(start, format!("`{text}` is not a row number from 1 to {rows}")));
                }
            }
        }
        start += line.len() + 1;
    }
    Ok(columns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_column_is_a_split_counted_from_one() {
        let columns = parse_split(b"1 3\r\n2 1\n\n", 3).unwrap();
        assert_eq!(columns, [vec![0, 1], vec![2, 0]]);
    }

    #[test]
    fn a_row_that_does_not_exist_and_a_line_with_missing_columns_are_refused() {
        assert!(
            parse_split(b"1\n4\n", 3).unwrap_err().reason.contains("`4` is not a row number from 1 to 3")
        );
        assert!(parse_split(b"0\n", 3).is_err());
        assert_eq!(parse_split(b"1 2\n1\n", 3).unwrap_err().at, 4);
    }
}
