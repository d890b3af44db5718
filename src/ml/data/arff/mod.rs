//! ARFF with labels: Mulan's, which names them in an XML file, and MEKA's, which says `-C n` in the
//! relation (the first `n` attributes, or the last if `n` is negative). An XML file wins.

mod header;
pub(crate) mod mulan;

use std::collections::HashMap;
use std::path::Path;

use self::header::{Attribute, Header, Kind, Values, read_header};
use super::artifact::{CsrWriter, DataSet, DataSetDir, Part, Rows, Summary};
use super::compress::Input;
use super::csr::Features;
use super::error::{DataError, Fault};
use super::lines::{Lines, Piece};
use super::report::{Format, ReadReport, Repair, Repairs};
use super::source::{ReadOptions, Source};

/// Where the values of an attribute go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Target {
    Label(u32),
    Feature(u32),
}

/// The attributes with their targets.
struct Schema {
    attributes: Vec<Attribute>,
    targets: Vec<Target>,
}

#[derive(Default)]
struct Block {
    labels: Rows,
    features: Rows,
    missing: u64,
    sorted: u64,
    zeros: u64,
    blank_lines: u64,
    carriage_returns: u64,
}

/// Reads ARFF files with the same attributes into a data set in `directory`.
pub fn read_arff(
    source: &Source,
    inputs: Vec<Input>,
    _options: &ReadOptions,
    directory: &Path,
    threads: usize,
) -> Result<DataSet, DataError> {
    let target = DataSetDir::create(directory)?;
    let mut features = target.sparse_features()?;
    let mut labels = target.labels()?;
    let mut repairs = Repairs::default();
    let mut parts = Vec::new();
    let mut known: Option<Schema> = None;
    for (part, input) in source.parts.iter().zip(inputs) {
        let mut lines = Lines::new(input)?;
        repairs.add(Repair::ByteOrderMarks, u64::from(lines.byte_order_mark));
        let path = lines.path().to_owned();
        let header = read_header(&mut lines)?;
        let schema = match known {
            Some(schema) => schema.must_equal(&header, &path)?,
            None => Schema::new(header, source.label_xml.as_deref(), &path)?,
        };
        let start = labels.rows();
        lines.parse(
            threads,
            |piece, block: &mut Block| parse_piece(piece, &schema, block),
            |block| take(block, &mut features, &mut labels, &mut repairs),
        )?;
        if labels.rows() == start {
            return Err(DataError::file(&path, "it holds no rows"));
        }
        parts.push(Part::range(&part.name, start..labels.rows()));
        known = Some(schema);
    }
    let schema = known.ok_or_else(|| DataError::Request("a data set needs at least one file".into()))?;
    let (label_names, feature_names) = schema.names();
    let features = Features::Sparse(features.finish(feature_names.len())?);
    let labels = labels.finish(label_names.len())?;
    let mut report = ReadReport::new(Format::Arff);
    report.repairs = repairs;
    let summary =
        Summary { label_names: Some(label_names), feature_names: Some(feature_names), parts, report };
    target.complete(features, labels, summary)
}

fn take(
    block: &Block,
    features: &mut CsrWriter,
    labels: &mut CsrWriter,
    repairs: &mut Repairs,
) -> Result<(), DataError> {
    features.append(&block.features)?;
    labels.append(&block.labels)?;
    repairs.add(Repair::MissingValuesAsZero, block.missing);
    repairs.add(Repair::FeatureRowsSorted, block.sorted);
    repairs.add(Repair::ZerosDropped, block.zeros);
    repairs.add(Repair::BlankLinesSkipped, block.blank_lines);
    repairs.add(Repair::CarriageReturns, block.carriage_returns);
    Ok(())
}

impl Schema {
    fn new(header: Header, label_xml: Option<&Path>, path: &Path) -> Result<Self, DataError> {
        let is_label = match label_xml {
            Some(xml) => labels_by_name(&header, xml, path)?,
            None => labels_by_count(&header).map_err(|reason| DataError::file(path, reason))?,
        };
        let (mut labels, mut features) = (0, 0);
        let mut targets = Vec::with_capacity(is_label.len());
        for (attribute, is_label) in header.attributes.iter().zip(is_label) {
            if let Kind::Other(kind) = &attribute.kind {
                let reason = format!(
                    "the attribute `{}` has the type `{kind}`; only numbers and nominal values can be read",
                    attribute.name
                );
                return Err(DataError::file(path, reason));
            }
            let (count, target): (&mut u32, fn(u32) -> Target) = match is_label {
                true => (&mut labels, Target::Label),
                false => (&mut features, Target::Feature),
            };
            targets.push(target(*count));
            *count += 1;
        }
        Ok(Self { attributes: header.attributes, targets })
    }

    /// A further part must declare the same attributes.
    fn must_equal(self, header: &Header, path: &Path) -> Result<Self, DataError> {
        let (here, before) = (&header.attributes, &self.attributes);
        if here.len() != before.len() {
            let reason = format!("it has {} attributes, the part before it {}", here.len(), before.len());
            return Err(DataError::file(path, reason));
        }
        match here.iter().zip(before).position(|(a, b)| a != b) {
            Some(at) => {
                let (name, other) = (&here[at].name, &before[at].name);
                let reason =
                    format!("its attribute {at} (`{name}`) is not that of the part before it (`{other}`)");
                Err(DataError::file(path, reason))
            }
            None => Ok(self),
        }
    }

    /// Of labels and of features, in the order of the file.
    fn names(&self) -> (Vec<String>, Vec<String>) {
        let (mut labels, mut features) = (Vec::new(), Vec::new());
        for (attribute, target) in self.attributes.iter().zip(&self.targets) {
            match target {
                Target::Label(_) => labels.push(attribute.name.clone()),
                Target::Feature(_) => features.push(attribute.name.clone()),
            }
        }
        (labels, features)
    }
}

/// Which attributes the XML names. Each of its names must be one attribute.
fn labels_by_name(header: &Header, xml: &Path, path: &Path) -> Result<Vec<bool>, DataError> {
    let text = Input::open(xml, 1)?.read_all()?;
    let names = mulan::label_names(&text).map_err(|fault| fault.locate(xml, &text, 0))?;
    let mut places: HashMap<&str, Vec<usize>> = HashMap::new();
    for (place, attribute) in header.attributes.iter().enumerate() {
        places.entry(&attribute.name).or_default().push(place);
    }
    let mut is_label = vec![false; header.attributes.len()];
    for name in &names {
        let reason = match places.get(name.as_str()).map(Vec::as_slice) {
            Some(&[place]) if !is_label[place] => {
                is_label[place] = true;
                continue;
            }
            Some([_]) => format!("the label `{name}` is named twice in {}", xml.display()),
            Some(_) => format!("several attributes are called `{name}`, which is a label"),
            None => format!("there is no attribute for the label `{name}` of {}", xml.display()),
        };
        return Err(DataError::file(path, reason));
    }
    Ok(is_label)
}

/// MEKA's `-C n` in the name of the relation.
fn labels_by_count(header: &Header) -> Result<Vec<bool>, String> {
    let total = header.attributes.len();
    let mut words = header.relation.split_ascii_whitespace().skip_while(|word| *word != "-C").skip(1);
    let count: i64 = words.next().and_then(|word| word.parse().ok()).ok_or(
        "nothing says which attributes are labels: give the Mulan XML file, or write MEKA's `-C n` into the relation",
    )?;
    let labels = usize::try_from(count.unsigned_abs()).unwrap_or(usize::MAX);
    if labels == 0 || labels > total {
        return Err(format!("the relation says `-C {count}`, but there are {total} attributes"));
    }
    let first_label = if count > 0 { 0 } else { total - labels };
    Ok((0..total).map(|place| (first_label..first_label + labels).contains(&place)).collect())
}

fn parse_piece(piece: Piece, schema: &Schema, block: &mut Block) -> Result<u64, Fault> {
    *block = Block::default();
    let mut lines = 0;
    let mut at = 0;
    for line in piece.padded[..piece.end].split_inclusive(|&b| b == b'\n') {
        parse_line(line, schema, block).map_err(|fault| Fault { at: at + fault.at, ..fault })?;
        at += line.len();
        lines += 1;
    }
    Ok(lines)
}

fn parse_line(line: &[u8], schema: &Schema, block: &mut Block) -> Result<(), Fault> {
    block.carriage_returns += u64::from(line.ends_with(b"\r\n"));
    let row = line.trim_ascii_end();
    let text = row.trim_ascii_start();
    let indent = row.len() - text.len();
    let shift = |fault: Fault, by: usize| Fault { at: fault.at + by, ..fault };
    match text {
        [] => {
            block.blank_lines += 1;
            return Ok(());
        }
        [b'%', ..] => return Ok(()),
        _ => {}
    }
    let (labels, features) = (block.labels.indices.len(), block.features.indices.len());
    match text {
        [b'{', inside @ .., b'}'] => sparse_row(inside, schema, block).map_err(|f| shift(f, indent + 1))?,
        [b'{', ..] => return Err(Fault::new(indent, "a sparse row ends with `}`")),
        _ => dense_row(text, schema, block).map_err(|f| shift(f, indent))?,
    }
    let repeated = |what: &str| Fault::new(indent, format!("a {what} attribute occurs twice in this row"));
    let moved = block.labels.sort_row(labels, 0).map_err(|_| repeated("label"))?;
    let moved = block.features.sort_row(features, 0).map_err(|_| repeated("feature"))? || moved;
    block.sorted += u64::from(moved);
    block.labels.lengths.push((block.labels.indices.len() - labels) as u32);
    block.features.lengths.push((block.features.indices.len() - features) as u32);
    Ok(())
}

/// `0.5,1,?,...`: every attribute has a value.
fn dense_row(text: &[u8], schema: &Schema, block: &mut Block) -> Result<(), Fault> {
    let total = schema.attributes.len();
    let mut place = 0;
    for value in Values::new(text) {
        let (at, value) = value.map_err(|at| Fault::new(at, "this quote does not end"))?;
        if place == total {
            return Err(Fault::new(at, format!("there are more values than the {total} attributes")));
        }
        store(schema, place, &value, true, block).map_err(|reason| Fault::new(at, reason))?;
        place += 1;
    }
    match place == total {
        true => Ok(()),
        false => Err(Fault::new(0, format!("this row has {place} values for {total} attributes"))),
    }
}

/// `3 1,17 0.5`: what is left out is zero.
fn sparse_row(text: &[u8], schema: &Schema, block: &mut Block) -> Result<(), Fault> {
    let mut at = 0;
    while !text[at..].trim_ascii().is_empty() {
        at += text[at..].iter().take_while(|b| b.is_ascii_whitespace()).count();
        let (place, end) = super::number::integer(text, at);
        if end == at || !text.get(end).is_some_and(u8::is_ascii_whitespace) {
            return Err(Fault::new(at, "an entry of a sparse row is written as `index value`"));
        }
        let place = place.map(|place| place as usize).filter(|&place| place < schema.attributes.len());
        let place = place.ok_or_else(|| {
            Fault::new(at, format!("there are only {} attributes, counted from 0", schema.attributes.len()))
        })?;
        let mut values = Values::new(&text[end..]);
        let (offset, value) = match values.next() {
            Some(Ok(value)) => value,
            Some(Err(offset)) => return Err(Fault::new(end + offset, "this quote does not end")),
            None => return Err(Fault::new(end, "a value is missing here")),
        };
        store(schema, place, &value, false, block).map_err(|reason| Fault::new(end + offset, reason))?;
        at = values.next_start().map_or(text.len(), |next| end + next);
    }
    Ok(())
}

fn store(schema: &Schema, place: usize, value: &str, dense: bool, block: &mut Block) -> Result<(), String> {
    let attribute = &schema.attributes[place];
    let target = schema.targets[place];
    if value == "?" {
        return match target {
            Target::Label(_) => Err(format!("the label `{}` has no value", attribute.name)),
            Target::Feature(_) => {
                block.missing += 1;
                Ok(())
            }
        };
    }
    let number = match &attribute.kind {
        Kind::Nominal { names, numbers } => {
            if !dense && numbers.first().is_some_and(|&first| first != 0.0) {
                let (name, first) = (&attribute.name, &names[0]);
                return Err(format!(
                    "a sparse row that leaves out `{name}` would mean its first value, `{first}`; declare 0 first"
                ));
            }
            let at = names.iter().position(|name| name == value);
            at.map(|at| numbers[at])
                .ok_or_else(|| format!("`{value}` is no value of the attribute `{}`", attribute.name))?
        }
        _ => match value.parse::<f32>() {
            Ok(number) if number.is_finite() => number,
            Ok(_) => return Err(format!("`{value}` is not a finite number of 32 bits")),
            Err(_) => return Err(format!("`{value}` is not a number")),
        },
    };
    match target {
        Target::Label(label) => match number {
            0.0 => {}
            1.0 => block.labels.indices.push(label),
            _ => return Err(format!("the label `{}` is `{value}`, not 0 or 1", attribute.name)),
        },
        Target::Feature(_) if number == 0.0 => block.zeros += u64::from(!dense),
        Target::Feature(feature) => {
            block.features.indices.push(feature);
            block.features.values.push(number);
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
