//! ARFF with labels.
//!
//! Mulan names the labels in an XML file. MEKA writes `-C n` into the relation: the first `n` attributes are labels, or the
//! last if `n` is negative. An XML file takes precedence.

mod header;
pub(crate) mod mulan;

use std::collections::{BTreeMap, HashMap, HashSet};
use std::path::Path;

use self::header::{ArffAttribute, ArffHeader, AttributeType, ValueList, read_header, spelled_number};
use super::artifact::{CsrWriter, DataSet, DataSetDir, DataSetPart, DataSetSummary, RowBatch};
use super::attributes::{KnownAttributes, NominalValues, UnknownValues, ValueMeaning};
use super::compress::InputFile;
use super::csr::{Csr, Features};
use super::error::{DataError, Fault};
use super::format::Format;
use super::lines::{TextChunk, TextLines};
use super::read::{ReadJob, no_files};
use super::read_report::{ReadReport, Repair, Repairs};
use super::source::NominalEncoding;

/// The matrix and column that the values of an attribute go to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum AttributeTarget {
    Label(u32),
    Feature(u32),
    /// One feature for each nominal value; the feature of the first value is given.
    OneHot(u32),
    /// Features of a model, for new rows; the position in [`ArffSchema::known_values`] is given.
    Known(usize),
    /// An attribute of new rows that the model does not need, such as a label.
    Ignored,
}

/// The attributes of a file with their targets.
struct ArffSchema {
    attributes: Vec<ArffAttribute>,
    targets: Vec<AttributeTarget>,
    /// What the nominal values of new rows become, for each attribute with [`AttributeTarget::Known`].
    known_values: Vec<Vec<ValueMeaning>>,
    /// The entries of attributes that a sparse row omits, unless they are zero: attribute, feature and value.
    omitted: Vec<(usize, u32, f32)>,
}

/// The rows of one chunk of text, with counts of repairs.
#[derive(Default)]
struct ArffRows {
    labels: RowBatch,
    features: RowBatch,
    missing: u64,
    sorted: u64,
    zeros: u64,
    blank_lines: u64,
    carriage_returns: u64,
    /// The number of rows with a value that the model does not know, by the positions of the attribute and of the value in the
    /// header of the file.
    unknown: BTreeMap<(usize, usize), u64>,
}

/// Reads ARFF files, which must declare the same attributes, into a data set.
pub(crate) fn read_arff(job: ReadJob) -> Result<DataSet, DataError> {
    let ReadJob { source, inputs, options, directory, threads } = job;
    let target = DataSetDir::create(directory)?;
    let mut features = target.sparse_features()?;
    let mut labels = target.labels()?;
    let mut repairs = Repairs::default();
    let mut parts = Vec::new();
    let mut known: Option<ArffSchema> = None;
    for (part, input) in source.parts.iter().zip(inputs) {
        let mut lines = TextLines::new(input)?;
        repairs.add(Repair::ByteOrderMarks, u64::from(lines.byte_order_mark));
        let path = lines.path().to_owned();
        let header = read_header(&mut lines)?;
        let schema = match known {
            Some(schema) => schema.must_equal(&header, &path)?,
            None => {
                let is_label = match source.label_xml.as_deref() {
                    Some(xml) => labels_by_name(&header, xml, &path)?,
                    None => labels_by_count(&header).map_err(|reason| DataError::file(&path, reason))?,
                };
                ArffSchema::new(header, is_label, options.nominal, &path)?
            }
        };
        let start = labels.rows();
        lines.parse(
            threads,
            |chunk, rows: &mut ArffRows| parse_chunk(chunk, &schema, rows),
            |rows| take(rows, &mut features, &mut labels, &mut repairs),
        )?;
        if labels.rows() == start {
            return Err(DataError::file(&path, "it contains no rows"));
        }
        parts.push(DataSetPart::range(&part.name, start..labels.rows()));
        known = Some(schema);
    }
    let schema = known.ok_or_else(no_files)?;
    let (label_names, feature_names) = schema.names();
    let features = Features::Sparse(features.finish(feature_names.len())?);
    let labels = labels.finish(label_names.len())?;
    let mut report = ReadReport::new(Format::Arff);
    report.repairs = repairs;
    let summary = DataSetSummary {
        label_names: Some(label_names),
        feature_names: Some(feature_names),
        nominal_values: schema.nominal_values(),
        parts,
        report,
    };
    target.complete(features, labels, summary)
}

/// Reads new rows for a model. Attributes are matched by name, so that each gets the number of the feature that the model was
/// trained with; the model was trained with `features` features. Also returns how many rows have values that the model does not know.
pub(crate) fn read_new_arff(
    input: InputFile,
    known: &KnownAttributes,
    features: usize,
    file: &Path,
    threads: usize,
) -> Result<(Csr, UnknownValues), DataError> {
    let mut lines = TextLines::new(input)?;
    let path = lines.path().to_owned();
    let header = read_header(&mut lines)?;
    let schema = ArffSchema::of_new_rows(header, known).map_err(|reason| DataError::file(&path, reason))?;
    let mut writer = CsrWriter::create(file, true)?;
    let mut unknown = UnknownValues::new();
    lines.parse(
        threads,
        |chunk, rows: &mut ArffRows| parse_chunk(chunk, &schema, rows),
        |rows| {
            for (&(attribute, value), count) in &rows.unknown {
                let ArffAttribute { name, kind } = &schema.attributes[attribute];
                *unknown.entry((name.clone(), kind.names()[value].clone())).or_default() += count;
            }
            writer.append(&rows.features)
        },
    )?;
    if writer.rows() == 0 {
        return Err(DataError::file(&path, "it contains no rows"));
    }
    Ok((writer.finish(features)?, unknown))
}

fn take(
    rows: &ArffRows,
    features: &mut CsrWriter,
    labels: &mut CsrWriter,
    repairs: &mut Repairs,
) -> Result<(), DataError> {
    features.append(&rows.features)?;
    labels.append(&rows.labels)?;
    repairs.add(Repair::MissingValuesAsZero, rows.missing);
    repairs.add(Repair::FeatureRowsSorted, rows.sorted);
    repairs.add(Repair::ZerosDropped, rows.zeros);
    repairs.add(Repair::BlankLinesSkipped, rows.blank_lines);
    repairs.add(Repair::CarriageReturns, rows.carriage_returns);
    Ok(())
}

impl ArffSchema {
    fn new(
        mut header: ArffHeader,
        is_label: Vec<bool>,
        nominal: Option<NominalEncoding>,
        path: &Path,
    ) -> Result<Self, DataError> {
        for (attribute, _) in header.attributes.iter_mut().zip(&is_label).filter(|(_, is_label)| **is_label) {
            if let AttributeType::Nominal { names, numbers } = &mut attribute.kind {
                let found = label_numbers(names).ok_or_else(|| {
                    let reason = format!(
                        "it is unknown which value of the label `{}` means that a row has it, of {}: write 0 and 1, no and yes, \
                         or false and true",
                        attribute.name,
                        names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
                    );
                    DataError::file(path, reason)
                })?;
                *numbers = found;
            }
        }
        let (mut labels, mut features) = (0, 0);
        let mut targets = Vec::with_capacity(is_label.len());
        for (attribute, is_label) in header.attributes.iter().zip(is_label) {
            if let AttributeType::Other(kind) = &attribute.kind {
                return Err(DataError::file(path, unusable_type(&attribute.name, kind)));
            }
            match (&attribute.kind, nominal) {
                _ if is_label => {
                    targets.push(AttributeTarget::Label(labels));
                    labels += 1;
                }
                (AttributeType::Nominal { names, .. }, None) if names.len() > 2 => {
                    let reason = format!(
                        "the attribute `{}` has {} nominal values, which have no order: choose `read: {{ nominal: \
                         one-hot }}`, or `ordinal` to use the numbers that they spell or else their positions",
                        attribute.name,
                        names.len()
                    );
                    return Err(DataError::file(path, reason));
                }
                (AttributeType::Nominal { names, .. }, Some(NominalEncoding::OneHot)) if names.len() > 2 => {
                    targets.push(AttributeTarget::OneHot(features));
                    features += names.len() as u32;
                }
                _ => {
                    targets.push(AttributeTarget::Feature(features));
                    features += 1;
                }
            }
        }
        let omitted = targets.iter().enumerate().filter_map(|(position, target)| match target {
            AttributeTarget::OneHot(first) => Some((position, *first, 1.0)),
            _ => None,
        });
        let omitted = omitted.collect();
        Ok(Self { omitted, attributes: header.attributes, targets, known_values: Vec::new() })
    }

    /// Returns how new rows become the features of a model. The error says what the model needs instead.
    fn of_new_rows(header: ArffHeader, known: &KnownAttributes) -> Result<Self, String> {
        let found: HashSet<&str> =
            header.attributes.iter().map(|attribute| attribute.name.as_str()).collect();
        if let Some(missing) = known.missing(&found) {
            return Err(format!("it has no attribute `{missing}`, which the model needs"));
        }
        let (mut targets, mut known_values, mut omitted) = (Vec::new(), Vec::new(), Vec::new());
        for (position, ArffAttribute { name, kind }) in header.attributes.iter().enumerate() {
            let (feature, is_nominal) = (known.feature(name), known.is_nominal(name));
            targets.push(match (kind, feature) {
                (AttributeType::Nominal { names, .. }, _) if is_nominal => {
                    let values: Vec<ValueMeaning> =
                        names.iter().map(|value| known.nominal(name, value)).collect();
                    if let Some(&ValueMeaning::Entry(feature, value)) = values.first()
                        && value != 0.0
                    {
                        omitted.push((position, feature, value));
                    }
                    known_values.push(values);
                    AttributeTarget::Known(known_values.len() - 1)
                }
                (AttributeType::Nominal { names, .. }, Some(feature)) => {
                    if let Some(word) = names.iter().find(|name| spelled_number(name).is_none()) {
                        return Err(format!(
                            "`{word}`, a value of the attribute `{name}`, is not a number, and the model does not know \
                             which number it stands for: run the stage that made the data set of the model again, which \
                             then stores it, or write numbers (0 for the first value of the training file, 1 for the second)"
                        ));
                    }
                    AttributeTarget::Feature(feature)
                }
                (AttributeType::Numeric, Some(feature)) => AttributeTarget::Feature(feature),
                (AttributeType::Numeric, None) if known.has_feature_for_a_value(name) => {
                    return Err(format!(
                        "the attribute `{name}` is numeric, but it has nominal values in the training file of the model"
                    ));
                }
                (AttributeType::Other(kind), _) if feature.is_some() || is_nominal => {
                    return Err(unusable_type(name, kind));
                }
                _ => AttributeTarget::Ignored,
            });
        }
        Ok(Self { attributes: header.attributes, targets, known_values, omitted })
    }

    /// Returns the schema again if a further part declares the same attributes.
    fn must_equal(self, header: &ArffHeader, path: &Path) -> Result<Self, DataError> {
        let (here, before) = (&header.attributes, &self.attributes);
        if here.len() != before.len() {
            let reason =
                format!("it has {} attributes, but the previous part has {}", here.len(), before.len());
            return Err(DataError::file(path, reason));
        }
        match here.iter().zip(before).position(|(a, b)| a != b) {
            Some(at) => {
                let (name, other) = (&here[at].name, &before[at].name);
                let reason = format!(
                    "its attribute {at} (`{name}`) differs from that of the previous part (`{other}`)"
                );
                Err(DataError::file(path, reason))
            }
            None => Ok(self),
        }
    }

    /// Returns the names of the labels and of the features, in the order of the file.
    fn names(&self) -> (Vec<String>, Vec<String>) {
        let (mut labels, mut features) = (Vec::new(), Vec::new());
        for (attribute, target) in self.attributes.iter().zip(&self.targets) {
            match target {
                AttributeTarget::Label(_) => labels.push(attribute.name.clone()),
                AttributeTarget::Feature(_) => features.push(attribute.name.clone()),
                AttributeTarget::OneHot(_) => {
                    let values = attribute.kind.names().iter();
                    features.extend(values.map(|value| format!("{}={value}", attribute.name)));
                }
                AttributeTarget::Known(_) | AttributeTarget::Ignored => {}
            }
        }
        (labels, features)
    }

    /// Returns the values of the nominal attributes that are features, except those that are numbers themselves.
    fn nominal_values(&self) -> NominalValues {
        let mut values = NominalValues::new();
        for (attribute, target) in self.attributes.iter().zip(&self.targets) {
            let names = attribute.kind.names();
            let is_stored = match target {
                AttributeTarget::OneHot(_) => true,
                AttributeTarget::Feature(_) => names.iter().any(|name| spelled_number(name).is_none()),
                _ => false,
            };
            if is_stored {
                values.insert(attribute.name.clone(), names.to_vec());
            }
        }
        values
    }
}

fn unusable_type(attribute: &str, kind: &str) -> String {
    format!("the attribute `{attribute}` has the type `{kind}`; only numbers and nominal values can be read")
}

/// Returns what the values of a label mean, 1 for a row that has it; `None` if their names do not say so.
fn label_numbers(names: &[String]) -> Option<Vec<f32>> {
    let number = |name: &String| match name.to_lowercase().as_str() {
        "no" | "n" | "false" | "f" | "negative" | "neg" | "absent" => Some(0.0),
        "yes" | "y" | "true" | "t" | "positive" | "pos" | "present" => Some(1.0),
        other => other.parse().ok(),
    };
    names.iter().map(number).collect()
}

/// Returns for each attribute whether the XML file lists it as a label. Each label must be exactly one attribute.
fn labels_by_name(header: &ArffHeader, xml: &Path, path: &Path) -> Result<Vec<bool>, DataError> {
    let text = InputFile::open(xml, 1)?.read_all()?;
    let names = mulan::label_names(&text).map_err(|fault| fault.locate(xml, &text, 0))?;
    let mut positions: HashMap<&str, Vec<usize>> = HashMap::new();
    for (position, attribute) in header.attributes.iter().enumerate() {
        positions.entry(&attribute.name).or_default().push(position);
    }
    let mut is_label = vec![false; header.attributes.len()];
    for name in &names {
        let reason = match positions.get(name.as_str()).map(Vec::as_slice) {
            Some(&[position]) if !is_label[position] => {
                is_label[position] = true;
                continue;
            }
            Some([_]) => format!("the label `{name}` occurs twice in {}", xml.display()),
            Some(_) => format!("several attributes have the name of the label `{name}`"),
            None => format!("there is no attribute for the label `{name}` of {}", xml.display()),
        };
        return Err(DataError::file(path, reason));
    }
    Ok(is_label)
}

/// Returns for each attribute whether MEKA's `-C n` in the relation makes it a label.
fn labels_by_count(header: &ArffHeader) -> Result<Vec<bool>, String> {
    let total = header.attributes.len();
    let mut words = header.relation.split_ascii_whitespace().skip_while(|word| *word != "-C").skip(1);
    let count: i64 = words.next().and_then(|word| word.parse().ok()).ok_or(
        "it is unknown which attributes are labels: give the Mulan XML file, or write MEKA's `-C n` into the relation",
    )?;
    let labels = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if labels == 0 || labels > total {
        return Err(format!("the relation says `-C {count}`, but there are {total} attributes"));
    }
    let first_label = if count > 0 { 0 } else { total - labels };
    Ok((0..total).map(|position| (first_label..first_label + labels).contains(&position)).collect())
}

fn parse_chunk(chunk: TextChunk, schema: &ArffSchema, rows: &mut ArffRows) -> Result<u64, Fault> {
    *rows = ArffRows::default();
    let mut lines = 0;
    let mut at = 0;
    for line in chunk.padded[..chunk.end].split_inclusive(|&b| b == b'\n') {
        parse_line(line, schema, rows).map_err(|fault| Fault { at: at + fault.at, ..fault })?;
        at += line.len();
        lines += 1;
    }
    Ok(lines)
}

fn parse_line(line: &[u8], schema: &ArffSchema, rows: &mut ArffRows) -> Result<(), Fault> {
    rows.carriage_returns += u64::from(line.ends_with(b"\r\n"));
    let row = line.trim_ascii_end();
    let text = row.trim_ascii_start();
    let indent = row.len() - text.len();
    let shift = |fault: Fault, by: usize| Fault { at: fault.at + by, ..fault };
    match text {
        [] => {
            rows.blank_lines += 1;
            return Ok(());
        }
        [b'%', ..] => return Ok(()),
        _ => {}
    }
    let (labels, features) = (rows.labels.indices.len(), rows.features.indices.len());
    match text {
        [b'{', inside @ .., b'}'] => sparse_row(inside, schema, rows).map_err(|f| shift(f, indent + 1))?,
        [b'{', ..] => return Err(Fault::new(indent, "a sparse row must end with `}`")),
        _ => dense_row(text, schema, rows).map_err(|f| shift(f, indent))?,
    }
    let repeated = |what: &str| Fault::new(indent, format!("a {what} attribute occurs twice in this row"));
    let moved = rows.labels.sort_row(labels, 0).map_err(|_| repeated("label"))?;
    let moved = rows.features.sort_row(features, 0).map_err(|_| repeated("feature"))? || moved;
    rows.sorted += u64::from(moved);
    rows.labels.lengths.push((rows.labels.indices.len() - labels) as u32);
    rows.features.lengths.push((rows.features.indices.len() - features) as u32);
    Ok(())
}

/// Parses a row with a value for every attribute: `0.5,1,?,...`.
fn dense_row(text: &[u8], schema: &ArffSchema, rows: &mut ArffRows) -> Result<(), Fault> {
    let total = schema.attributes.len();
    let mut position = 0;
    for value in ValueList::new(text) {
        let (at, value) = value.map_err(|at| Fault::new(at, "this quote is not closed"))?;
        if position == total {
            return Err(Fault::new(at, format!("there are more values than the {total} attributes")));
        }
        store(schema, position, &value, true, rows).map_err(|reason| Fault::new(at, reason))?;
        position += 1;
    }
    if position != total {
        return Err(Fault::new(0, format!("this row has {position} values for {total} attributes")));
    }
    Ok(())
}

/// Parses a row of `index value` entries, where omitted attributes are zero or have their first nominal value: `3 1,17 0.5`.
fn sparse_row(text: &[u8], schema: &ArffSchema, rows: &mut ArffRows) -> Result<(), Fault> {
    let mut at = 0;
    let mut omitted = schema.omitted.clone();
    while !text[at..].trim_ascii().is_empty() {
        at += text[at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        let (position, end) = super::number::integer(text, at);
        if end == at || !text.get(end).is_some_and(u8::is_ascii_whitespace) {
            return Err(Fault::new(at, "an entry of a sparse row is written as `index value`"));
        }
        let position =
            position.map(|position| position as usize).filter(|&position| position < schema.attributes.len());
        let position = position.ok_or_else(|| {
            Fault::new(at, format!("there are only {} attributes, counted from 0", schema.attributes.len()))
        })?;
        let mut values = ValueList::new(&text[end..]);
        let (offset, value) = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(offset)) => return Err(Fault::new(end + offset, "this quote is not closed")),
            None => return Err(Fault::new(end, "a value is missing here")),
        };
        store(schema, position, &value, false, rows).map_err(|reason| Fault::new(end + offset, reason))?;
        omitted.retain(|&(attribute, ..)| attribute != position);
        at = values.next_start().map_or(text.len(), |next| end + next);
    }
    for (_, feature, value) in omitted {
        rows.features.indices.push(feature);
        rows.features.values.push(value);
    }
    Ok(())
}

/// Stores one value of a row. Zeros are not stored.
fn store(
    schema: &ArffSchema,
    position: usize,
    value: &str,
    dense: bool,
    rows: &mut ArffRows,
) -> Result<(), String> {
    let attribute = &schema.attributes[position];
    let target = schema.targets[position];
    if value == "?" && target != AttributeTarget::Ignored {
        return match target {
            AttributeTarget::Label(_) => Err(format!("the label `{}` has no value", attribute.name)),
            _ => {
                rows.missing += 1;
                Ok(())
            }
        };
    }
    let undeclared = || format!("`{value}` is not a declared value of the attribute `{}`", attribute.name);
    let place = || attribute.kind.names().iter().position(|name| name == value).ok_or_else(undeclared);
    match target {
        AttributeTarget::Ignored => return Ok(()),
        AttributeTarget::OneHot(first) => {
            rows.features.indices.push(first + place()? as u32);
            rows.features.values.push(1.0);
            return Ok(());
        }
        AttributeTarget::Known(at) => {
            let place = place()?;
            match schema.known_values[at][place] {
                ValueMeaning::Entry(feature, value) if value != 0.0 => {
                    rows.features.indices.push(feature);
                    rows.features.values.push(value);
                }
                ValueMeaning::Entry(..) | ValueMeaning::LeftOut => {}
                ValueMeaning::Unknown => *rows.unknown.entry((position, place)).or_default() += 1,
            }
            return Ok(());
        }
        AttributeTarget::Label(_) | AttributeTarget::Feature(_) => {}
    }
    let number = match &attribute.kind {
        AttributeType::Nominal { names, numbers } => {
            if !dense && numbers.first().is_some_and(|&first| first != 0.0) {
                let (name, first) = (&attribute.name, &names[0]);
                return Err(format!(
                    "a sparse row without `{name}` would mean its first value, `{first}`; declare 0 as the first value"
                ));
            }
            numbers[place()?]
        }
        _ => match value.parse::<f32>() {
            Ok(number) if number.is_finite() => number,
            Ok(_) => return Err(format!("`{value}` is not a finite 32-bit number")),
            Err(_) => return Err(format!("`{value}` is not a number")),
        },
    };
    match target {
        AttributeTarget::Label(label) => match number {
            0.0 => {}
            1.0 => rows.labels.indices.push(label),
            _ => return Err(format!("the label `{}` is `{value}`, not 0 or 1", attribute.name)),
        },
        AttributeTarget::Feature(_) if number == 0.0 => rows.zeros += u64::from(!dense),
        AttributeTarget::Feature(feature) => {
            rows.features.indices.push(feature);
            rows.features.values.push(number);
        }
        // Stored above.
        AttributeTarget::OneHot(_) | AttributeTarget::Known(_) | AttributeTarget::Ignored => {}
    }
    Ok(())
}

#[cfg(test)]
mod tests;
