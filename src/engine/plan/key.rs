//! Collects the parts of an instance's key; [`pipe_core::key`] explains which there are and why.

use std::borrow::Cow;
use std::collections::BTreeMap;

use pipe_core::key::{KeyParts, key_of};

use crate::spec::pipeline::{InputSource, Instance};
use crate::store::UserFile;
use pipe_core::digest::{BlobId, Digest, StageKey};
use pipe_core::job::Axes;
use pipe_core::kind::Program;
use pipe_core::packages::Packages;

/// The content of one input artifact and the slot that it enters.
#[derive(Debug, Clone, Copy)]
pub struct InputContent<'a> {
    pub slot: &'a str,
    /// For a member of a fan-in: the axes that distinguish it from the others.
    pub member: Option<&'a Axes>,
    pub content: Content,
}

/// The content of an input and, for a file of the user, its form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Content {
    pub blob: BlobId,
    pub form: Form,
}

/// What the content does not say. A directory has the same digest as a file with the text of its listing, and whether a file
/// may be executed is not in its bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Plain,
    Executable,
    Directory,
}

impl Content {
    /// Returns the content of a file or directory of the user.
    pub fn of_user_file(file: &UserFile) -> Self {
        let form = match (file.directory, file.executable) {
            (true, _) => Form::Directory,
            (false, true) => Form::Executable,
            (false, false) => Form::Plain,
        };
        Self { blob: file.blob, form }
    }
}

impl From<BlobId> for Content {
    fn from(blob: BlobId) -> Self {
        Self { blob, form: Form::Plain }
    }
}

impl Form {
    /// Returns the text of the key part; a plain file has none.
    fn text(self) -> Option<&'static str> {
        match self {
            Self::Plain => None,
            Self::Executable => Some("executable"),
            Self::Directory => Some("directory"),
        }
    }

    /// Returns the form that key parts record for a slot.
    pub fn recorded(parts: &KeyParts, slot: &str) -> Self {
        let text = parts.get(&format!("inputs.{slot}.form"));
        let forms = [Self::Executable, Self::Directory];
        forms.into_iter().find(|form| form.text() == text).unwrap_or(Self::Plain)
    }
}

/// Returns the inputs of an instance with the contents of their sources, which `found` lists in the same order.
pub fn contents<'a, C: Copy + Into<Content>>(
    instance: &'a Instance,
    found: &[Vec<C>],
) -> Vec<InputContent<'a>> {
    let mut contents = Vec::with_capacity(found.len());
    for (input, found) in instance.inputs.iter().zip(found) {
        for (source, &content) in input.sources.iter().zip(found) {
            let member = match source {
                InputSource::Output { axes, .. } if input.many => Some(axes),
                _ => None,
            };
            contents.push(InputContent { slot: &input.slot, member, content: content.into() });
        }
    }
    contents
}

/// Returns everything that can change the result of the instance. The members of a fan-in must be in the order in which
/// the stage will see them.
pub fn parts(instance: &Instance, inputs: &[InputContent]) -> KeyParts {
    let named = named_parts(instance, inputs);
    KeyParts::new(named.into_iter().map(|(name, value)| (name.into_owned(), value.into_owned())).collect())
}

/// Returns the key of the same parts. A run asks for the key of every instance, but for the parts only of those that it computes.
pub fn key(instance: &Instance, inputs: &[InputContent]) -> StageKey {
    let mut named = named_parts(instance, inputs);
    named.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
    key_of(named.iter().map(|(name, value)| (name.as_ref(), value.as_ref())))
}

/// Returns the parts of a key in any order. No two have the same name.
fn named_parts<'a>(instance: &'a Instance, inputs: &[InputContent]) -> Vec<(Cow<'a, str>, Cow<'a, str>)> {
    let mut parts: Vec<(Cow<str>, Cow<str>)> = Vec::with_capacity(16);
    parts.push(("kind".into(), instance.kind.into()));
    parts.push(("version".into(), instance.version.to_string().into()));
    parts.extend(instance.params.iter().map(|(name, value)| (name.into(), value.into())));
    for (name, value) in &instance.environment {
        let value = value.as_deref().map_or_else(|| "unset".to_owned(), |text| variable_digest(name, text));
        parts.push((format!("env.{name}").into(), value.into()));
    }
    if let Ok(Some(Packages { interpreter: Some(interpreter), .. })) = instance.packages() {
        parts.push(("interpreter".into(), interpreter.version.as_str().into()));
    }
    let mut fan_ins: BTreeMap<&str, FanInParts> = BTreeMap::new();
    for input in inputs {
        let content = input.content.blob.digest().to_hex();
        if let Some(axes) = input.member {
            fan_ins.entry(input.slot).or_default().add(input.slot, axes, content);
            continue;
        }
        let slot = ["inputs.", input.slot].concat();
        // A built-in stage knows what it reads, and on some file systems every file is executable.
        if let Some(form) = input.content.form.text().filter(|_| instance.program == Program::Command) {
            parts.push((format!("{slot}.form").into(), form.into()));
        }
        parts.push((slot.into(), content.into()));
    }
    for (slot, FanInParts { order, members }) in fan_ins {
        parts.push((format!("inputs.{slot}.order").into(), order.into()));
        parts.extend(members.into_iter().map(|(name, content)| (name.into(), content.into())));
    }
    parts
}

/// The parts of the members of one slot.
#[derive(Default)]
struct FanInParts {
    order: String,
    /// The contents by the names of the parts.
    members: BTreeMap<String, String>,
}

impl FanInParts {
    fn add(&mut self, slot: &str, axes: &Axes, content: String) {
        let member = member_name(axes);
        self.order.push_str(&member);
        // An artifact that is referenced twice is two members.
        let mut name = format!("inputs.{slot}{member}");
        while self.members.contains_key(&name) {
            name.push_str("[again]");
        }
        self.members.insert(name, content);
    }
}

/// Returns a digest of the value of an environment variable. The value itself may be a password, and the parts of a key are
/// written to locks, manifests and bundles. The name is in the digest so that equal values of two variables do not show.
fn variable_digest(name: &str, value: &str) -> String {
    let mut hasher = blake3::Hasher::new_derive_key(&format!("pipe environment variable {name}"));
    Digest::from(hasher.update(value.as_bytes()).finalize()).to_string()
}

fn member_name(axes: &Axes) -> String {
    let pairs: Vec<String> = axes.iter().map(|(axis, value)| format!("{axis}={value}")).collect();
    format!("[{}]", pairs.join(","))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::plan::sample;
    use crate::spec::pipeline::{ClusterRequest, InstanceId, Resources};

    fn blob(content: &[u8]) -> BlobId {
        BlobId::new(Digest::of(content))
    }

    fn train() -> Instance {
        let mut instance = sample::stage("train", &[]);
        instance.kind = "train";
        instance.version = 3;
        let params = json!({
            "optimiser": { "lr": 1e-4, "name": "adam" }, "epochs": 150, "layers": [64, { "b": 1, "a": 2 }],
            "data": null, "extra": {}
        });
        instance.params = (&params).into();
        instance.environment = vec![("OMP_WAIT_POLICY".into(), None), ("TOKEN".into(), Some("a\"b".into()))];
        instance
    }

    fn key_of(instance: &Instance) -> StageKey {
        let axes = vec![("seed".to_owned(), "1".to_owned())];
        let inputs = [
            InputContent { slot: "data", member: None, content: blob(b"data").into() },
            InputContent { slot: "from", member: Some(&axes), content: blob(b"one").into() },
        ];
        let key = key(instance, &inputs);
        assert_eq!(parts(instance, &inputs).key(), key);
        key
    }

    #[test]
    fn key_parts_have_readable_names() {
        let axes = vec![("variant".to_owned(), "adaptive".to_owned()), ("seed".to_owned(), "1".to_owned())];
        let inputs = [
            InputContent { slot: "data", member: None, content: blob(b"data").into() },
            InputContent { slot: "from", member: Some(&axes), content: blob(b"one").into() },
        ];
        let parts = parts(&train(), &inputs);
        let names: Vec<&str> = parts.iter().map(|(name, _)| name).collect();
        assert_eq!(
            names,
            [
                "env.OMP_WAIT_POLICY",
                "env.TOKEN",
                "inputs.data",
                "inputs.from.order",
                "inputs.from[variant=adaptive,seed=1]",
                "kind",
                "params.data",
                "params.epochs",
                "params.extra",
                "params.layers",
                "params.optimiser.lr",
                "params.optimiser.name",
                "version",
            ]
        );
        assert_eq!(parts.get("params.optimiser.lr"), Some("0.0001"));
        assert_eq!(parts.get("params.layers"), Some(r#"[64,{"a":2,"b":1}]"#));
        assert_eq!(parts.get("env.OMP_WAIT_POLICY"), Some("unset"));
    }

    /// A change of these digests invalidates every cache; do it only on purpose, with a new `FORMAT`.
    #[test]
    fn digests_are_pinned() {
        assert_eq!(
            KeyParts::new(BTreeMap::new()).key().to_string(),
            "f890d5e4c96f8c6de1774241ebe709ce09ffca9b44e24cad0532043c2f2aa20b"
        );
        assert_eq!(
            key_of(&train()).to_string(),
            "5c41091c06eb3c12503ac9122af2a9cd9b07113e548745bb36255f026f394acb"
        );
    }

    #[test]
    fn a_command_sees_whether_an_input_is_executable_or_a_directory() {
        let key = |program, form| {
            let mut instance = train();
            instance.program = program;
            let content = Content { blob: blob(b"data"), form };
            parts(&instance, &[InputContent { slot: "data", member: None, content }]).key()
        };
        let forms = [Form::Plain, Form::Executable, Form::Directory];
        let [plain, executable, directory] = forms.map(|form| key(Program::Command, form));
        assert!(plain != executable && plain != directory && executable != directory);
        assert!(forms.into_iter().all(|form| key(Program::Pipe, form) == key(Program::Pipe, Form::Plain)));
    }

    #[test]
    fn the_value_of_an_environment_variable_is_not_in_the_key_parts() {
        let mut instance = train();
        instance.environment = vec![("A".into(), Some("secret".into())), ("B".into(), Some("secret".into()))];
        let parts = parts(&instance, &[]);
        assert!(parts.iter().all(|(_, value)| !value.contains("secret")));
        assert_ne!(parts.get("env.A"), parts.get("env.B"), "equal values do not show");
    }

    #[test]
    fn what_cannot_change_the_result_is_not_in_the_key() {
        let key = key_of(&train());
        let mut twin = train();
        twin.id = InstanceId { stage: "renamed".into(), axes: vec![("seed".into(), "7".into())] };
        twin.resources = Resources { cpu: 8, mem: 1 << 30, gpu: 1 };
        twin.cluster = ClusterRequest { auto_mem: true, gpu_type: Some("a100".into()), ..Default::default() };
        twin.retries = 5;
        twin.compare.ignore.insert("out".into());
        twin.body = json!({ "data": "another-stage" }).into();
        assert_eq!(key_of(&twin), key);
        let params: Value = serde_json::from_str(
            r#"{ "extra": {}, "data": null, "layers": [64, {"a": 2, "b": 1}], "epochs": 150,
                 "optimiser": { "name": "adam", "lr": 0.0001 } }"#,
        )
        .unwrap();
        twin.params = (&params).into();
        assert_eq!(key_of(&twin), key, "key order and the way a number is written");
    }

    fn edit(instance: &mut Instance, change: impl FnOnce(&mut Value)) {
        let mut params = instance.params.value();
        change(&mut params);
        instance.params = (&params).into();
    }

    #[test]
    fn every_part_changes_the_key() {
        type Edit = fn(&mut Instance);
        let edits: [(&str, Edit); 10] = [
            ("kind", |i| i.kind = "evaluate"),
            ("version", |i| i.version += 1),
            ("a nested parameter", |i| edit(i, |p| p["optimiser"]["lr"] = json!(3e-4))),
            ("an element of a list", |i| edit(i, |p| p["layers"][0] = json!(65))),
            ("the order of a list", |i| edit(i, |p| p["layers"] = json!([{ "b": 1, "a": 2 }, 64]))),
            ("a parameter more", |i| edit(i, |p| p["more"] = json!(false))),
            ("text instead of a number", |i| edit(i, |p| p["epochs"] = json!("150"))),
            ("a dotted name instead of nesting", |i| {
                let params = json!({ "optimiser.lr": 1e-4, "optimiser.name": "adam", "epochs": 150,
                    "layers": [64, { "b": 1, "a": 2 }], "data": null, "extra": {} });
                i.params = (&params).into();
            }),
            ("a variable that is set", |i| i.environment[0].1 = Some(String::new())),
            ("a variable's value", |i| i.environment[1].1 = Some("other".into())),
        ];
        let mut seen = vec![("unchanged", key_of(&train()))];
        for (what, edit) in edits {
            let mut instance = train();
            edit(&mut instance);
            let key = key_of(&instance);
            let same = seen.iter().find(|(_, other)| *other == key);
            assert!(same.is_none(), "{what} gives the same key as {same:?}");
            seen.push((what, key));
        }
    }

    #[test]
    fn inputs_change_the_key_by_slot_content_member_and_order() {
        let (one, two) =
            (vec![("seed".to_owned(), "1".to_owned())], vec![("seed".to_owned(), "2".to_owned())]);
        let single = |slot, content: &[u8]| {
            parts(&train(), &[InputContent { slot, member: None, content: blob(content).into() }]).key()
        };
        let fan_in = |members: &[(&Axes, &[u8])]| {
            let inputs: Vec<_> = members
                .iter()
                .map(|(axes, content)| InputContent {
                    slot: "from",
                    member: Some(axes),
                    content: blob(content).into(),
                })
                .collect();
            parts(&train(), &inputs).key()
        };
        let keys = [
            single("data", b"a"),
            single("data", b"b"),
            single("idf", b"a"),
            single("from", b"a"),
            fan_in(&[(&one, b"a")]),
            fan_in(&[(&two, b"a")]),
            fan_in(&[(&one, b"a"), (&two, b"b")]),
            fan_in(&[(&two, b"b"), (&one, b"a")]),
            fan_in(&[(&one, b"a"), (&one, b"a")]),
        ];
        for (position, key) in keys.iter().enumerate() {
            assert!(!keys[..position].contains(key), "input set {position} repeats an earlier key");
        }
    }
}
