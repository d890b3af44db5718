//! What a disk holds, and what of it survives a power loss. Without threads, files or a clock.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::time::SystemTime;

use serde::{Deserialize, Serialize};

use crate::rng::Rng;

/// The number of the root directory.
pub const ROOT: u64 = 1;

/// A file, directory or link.
#[derive(Clone, Debug)]
pub struct Node {
    pub attributes: Attributes,
    pub content: Content,
}

#[derive(Clone, Copy, Debug)]
pub struct Attributes {
    pub mode: u16,
    pub owner: (u32, u32),
    pub modified: SystemTime,
    pub changed: SystemTime,
}

#[derive(Clone, Debug)]
pub enum Content {
    File(Vec<u8>),
    Directory(BTreeMap<OsString, u64>),
    Link(OsString),
}

/// A name in a directory.
pub type Place = (u64, OsString);

/// A change of the disk.
#[derive(Clone, Debug)]
pub enum Change {
    /// A new file, directory or link gets a name.
    Create(Place, u64, Node),
    /// An existing file gets another name.
    Link(Place, u64),
    Remove(Place),
    /// A file or directory gets another name; what had that name is gone.
    Rename(Place, Place, u64),
    /// Two names change places, with what they name.
    Exchange((Place, u64), (Place, u64)),
    Write(u64, usize, Vec<u8>),
    SetLength(u64, usize),
    /// The mode, the owner or the times, as they are afterwards.
    Attributes(u64, Attributes),
}

impl Change {
    /// Returns the file whose data the change concerns, or `None` for names and attributes.
    fn data_of(&self) -> Option<u64> {
        match self {
            Self::Write(file, ..) | Self::SetLength(file, _) => Some(*file),
            _ => None,
        }
    }

    /// Returns whether flushing this file or directory makes the change durable.
    fn concerns(&self, flushed: u64) -> bool {
        match self {
            Self::Create((parent, _), ..) | Self::Link((parent, _), _) | Self::Remove((parent, _)) => {
                *parent == flushed
            }
            Self::Rename((from, _), (to, _), _) | Self::Exchange(((from, _), _), ((to, _), _)) => {
                *from == flushed || *to == flushed
            }
            Self::Write(file, ..) | Self::SetLength(file, _) | Self::Attributes(file, _) => *file == flushed,
        }
    }
}

/// What a file system promises about changes that were not flushed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Survival {
    /// Names and attributes survive up to some moment, and flushing anything flushes all of them, as on ext4 and xfs. Data
    /// survive in any order.
    Journal,
    /// Everything survives in any order, and flushing a file does not flush its name: no more than POSIX promises.
    Posix,
}

/// A disk: what it held when everything was flushed last, and all changes since then.
#[derive(Clone, Debug)]
pub struct Disk {
    survival: Survival,
    flushed: BTreeMap<u64, Node>,
    now: BTreeMap<u64, Node>,
    /// The changes, and whether each was flushed.
    changes: Vec<(Change, bool)>,
    /// The files and directories that were flushed. They exist after a power loss even if the name that they were created
    /// with is lost, so that another, flushed name leads to them.
    durable: BTreeSet<u64>,
    next: u64,
}

impl Disk {
    pub fn new(survival: Survival, owner: (u32, u32), now: SystemTime) -> Self {
        let content = Content::Directory(BTreeMap::new());
        let root =
            Node { attributes: Attributes { mode: 0o755, owner, modified: now, changed: now }, content };
        let nodes = BTreeMap::from([(ROOT, root)]);
        Self {
            survival,
            flushed: nodes.clone(),
            now: nodes,
            changes: Vec::new(),
            durable: BTreeSet::new(),
            next: ROOT + 1,
        }
    }

    /// Returns how many changes were made since everything was flushed.
    pub fn changes(&self) -> usize {
        self.changes.len()
    }

    /// Returns a number for a new file.
    pub fn number(&mut self) -> u64 {
        self.next += 1;
        self.next - 1
    }

    pub fn node(&self, number: u64) -> Option<&Node> {
        self.now.get(&number)
    }

    /// Returns the number of what has this name.
    pub fn find(&self, (parent, name): &Place) -> Option<u64> {
        match &self.node(*parent)?.content {
            Content::Directory(entries) => entries.get(name).copied(),
            _ => None,
        }
    }

    /// Returns how many names a file has.
    pub fn names(&self, number: u64) -> u32 {
        let is_it =
            |node: &&Node| matches!(&node.content, Content::Directory(e) if e.values().any(|n| *n == number));
        self.now.values().filter(is_it).count() as u32
    }

    /// Makes a change.
    pub fn change(&mut self, change: Change, time: SystemTime) {
        apply(&mut self.now, &change);
        if let Some(node) = change.data_of().and_then(|file| self.now.get_mut(&file)) {
            node.attributes = Attributes { modified: time, changed: time, ..node.attributes };
            // The times of a write reach the disk with the other attributes.
            let attributes = Change::Attributes(change.data_of().unwrap_or(ROOT), node.attributes);
            self.changes.push((attributes, false));
        }
        self.changes.push((change, false));
    }

    /// Flushes a file or a directory, as `fsync` does.
    pub fn flush(&mut self, number: u64) {
        self.durable.insert(number);
        for (change, flushed) in &mut self.changes {
            let journal = self.survival == Survival::Journal && change.data_of().is_none();
            *flushed |= journal || change.concerns(number);
        }
    }

    /// Flushes everything, as the kernel does after half a minute.
    pub fn flush_all(&mut self) {
        self.flushed = self.now.clone();
        self.changes.clear();
    }

    /// Returns what the disk holds after a power loss: all that was flushed, and some of the rest.
    pub fn survivors(&self, rng: &mut Rng) -> Self {
        let mut nodes = self.flushed.clone();
        // How much of the rest is lost differs from loss to loss.
        let share = rng.pick(&[0, 20, 50, 80, 100]);
        let end = rng.below(self.changes.len() as u64 + 1) as usize;
        for (n, (change, flushed)) in self.changes.iter().enumerate() {
            let survives = match (self.survival, change.data_of()) {
                _ if *flushed => true,
                (Survival::Journal, None) => n < end,
                _ => rng.chance(share),
            };
            if !survives {
                if let Change::Create(_, number, node) = change
                    && self.durable.contains(number)
                {
                    nodes.insert(*number, node.clone());
                }
                continue;
            }
            match change {
                Change::Write(file, at, data) if !flushed && rng.chance(20) => {
                    let torn = data[..rng.below(data.len() as u64 + 1) as usize].to_vec();
                    apply(&mut nodes, &Change::Write(*file, *at, torn));
                }
                change => apply(&mut nodes, change),
            }
        }
        keep_named(&mut nodes);
        Self {
            survival: self.survival,
            flushed: nodes.clone(),
            now: nodes,
            changes: Vec::new(),
            durable: BTreeSet::new(),
            next: self.next,
        }
    }
}

fn entries(nodes: &mut BTreeMap<u64, Node>, directory: u64) -> Option<&mut BTreeMap<OsString, u64>> {
    match &mut nodes.get_mut(&directory)?.content {
        Content::Directory(entries) => Some(entries),
        _ => None,
    }
}

/// Makes a change, unless an earlier change that it builds on was lost.
fn apply(nodes: &mut BTreeMap<u64, Node>, change: &Change) {
    match change {
        Change::Create((parent, name), number, node) => {
            nodes.entry(*number).or_insert_with(|| node.clone());
            if let Some(entries) = entries(nodes, *parent) {
                entries.insert(name.clone(), *number);
            }
        }
        Change::Link((parent, name), number) => {
            if nodes.contains_key(number)
                && let Some(entries) = entries(nodes, *parent)
            {
                entries.insert(name.clone(), *number);
            }
        }
        Change::Remove((parent, name)) => {
            if let Some(entries) = entries(nodes, *parent) {
                entries.remove(name);
            }
        }
        Change::Rename((from, old), (to, new), number) => {
            if !nodes.contains_key(number) {
                return;
            }
            if let Some(entries) = entries(nodes, *from)
                && entries.get(old) == Some(number)
            {
                entries.remove(old);
            }
            if let Some(entries) = entries(nodes, *to) {
                entries.insert(new.clone(), *number);
            }
        }
        Change::Exchange((first, one), (second, other)) => {
            for ((directory, name), number) in [(first, other), (second, one)] {
                if nodes.contains_key(number)
                    && let Some(entries) = entries(nodes, *directory)
                {
                    entries.insert(name.clone(), *number);
                }
            }
        }
        Change::Write(file, at, data) => {
            if let Some(Node { content: Content::File(content), .. }) = nodes.get_mut(file) {
                content.resize(content.len().max(at + data.len()), 0);
                content[*at..at + data.len()].copy_from_slice(data);
            }
        }
        Change::SetLength(file, length) => {
            if let Some(Node { content: Content::File(content), .. }) = nodes.get_mut(file) {
                content.resize(*length, 0);
            }
        }
        Change::Attributes(number, attributes) => {
            if let Some(node) = nodes.get_mut(number) {
                node.attributes = *attributes;
            }
        }
    }
}

/// Drops everything that no directory names, as the check of a file system after a power loss does.
fn keep_named(nodes: &mut BTreeMap<u64, Node>) {
    let mut named = BTreeSet::new();
    let mut pending = vec![ROOT];
    while let Some(number) = pending.pop() {
        if let Some(node) = nodes.get(&number)
            && named.insert(number)
            && let Content::Directory(entries) = &node.content
        {
            pending.extend(entries.values());
        }
    }
    nodes.retain(|number, _| named.contains(number));
    for node in nodes.values_mut() {
        if let Content::Directory(entries) = &mut node.content {
            entries.retain(|_, number| named.contains(number));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: SystemTime = SystemTime::UNIX_EPOCH;

    fn file(disk: &mut Disk, name: &str, data: &[u8]) -> u64 {
        let number = disk.number();
        let attributes = Attributes { mode: 0o644, owner: (0, 0), modified: NOW, changed: NOW };
        let node = Node { attributes, content: Content::File(Vec::new()) };
        disk.change(Change::Create((ROOT, name.into()), number, node), NOW);
        disk.change(Change::Write(number, 0, data.to_vec()), NOW);
        number
    }

    fn read(disk: &Disk, name: &str) -> Option<Vec<u8>> {
        let number = disk.find(&(ROOT, name.into()))?;
        match &disk.node(number)?.content {
            Content::File(content) => Some(content.clone()),
            _ => None,
        }
    }

    fn outcomes(disk: &Disk, name: &str) -> BTreeSet<Option<Vec<u8>>> {
        (0..500).map(|n| read(&disk.survivors(&mut Rng::of(n, "power", n)), name)).collect()
    }

    #[test]
    fn what_was_not_flushed_survives_whole_or_torn_or_not_at_all() {
        let mut disk = Disk::new(Survival::Journal, (0, 0), NOW);
        file(&mut disk, "a", b"content");
        let outcomes = outcomes(&disk, "a");
        for outcome in [None, Some(&b""[..]), Some(b"con"), Some(b"content")] {
            assert!(
                outcomes.contains(&outcome.map(<[u8]>::to_vec)),
                "{outcome:?} never occurs in {outcomes:?}"
            );
        }
    }

    #[test]
    fn a_flushed_file_survives_with_its_name_only_where_names_are_in_a_journal() {
        for survival in [Survival::Journal, Survival::Posix] {
            let mut disk = Disk::new(survival, (0, 0), NOW);
            let number = file(&mut disk, "a", b"content");
            disk.flush(number);
            let always = outcomes(&disk, "a") == BTreeSet::from([Some(b"content".to_vec())]);
            assert_eq!(always, survival == Survival::Journal);
            disk.flush(ROOT);
            assert_eq!(outcomes(&disk, "a"), BTreeSet::from([Some(b"content".to_vec())]));
        }
    }

    #[test]
    fn a_flushed_file_survives_under_the_flushed_one_of_its_names() {
        for exchange in [false, true] {
            let mut disk = Disk::new(Survival::Posix, (0, 0), NOW);
            let [from, to] = [disk.number(), disk.number()];
            for (name, number) in [("from", from), ("to", to)] {
                let attributes = Attributes { mode: 0o755, owner: (0, 0), modified: NOW, changed: NOW };
                let node = Node { attributes, content: Content::Directory(BTreeMap::new()) };
                disk.change(Change::Create((ROOT, name.into()), number, node), NOW);
            }
            let old = file(&mut disk, "old", b"old");
            disk.change(Change::Rename((ROOT, "old".into()), (to, "a".into()), old), NOW);
            disk.flush_all();
            let new = file(&mut disk, "new", b"new");
            disk.flush(new);
            disk.change(Change::Rename((ROOT, "new".into()), (from, "b".into()), new), NOW);
            let (b, a) = ((from, "b".into()), (to, "a".into()));
            disk.change(
                if exchange { Change::Exchange((b, new), (a, old)) } else { Change::Rename(b, a, new) },
                NOW,
            );
            disk.flush(to);
            for n in 0..200 {
                let left = disk.survivors(&mut Rng::of(n, "power", n));
                let number = left.find(&(to, "a".into())).expect("its name was flushed");
                assert!(
                    matches!(&left.node(number).expect("it was flushed").content, Content::File(c) if c == b"new")
                );
            }
        }
    }

    #[test]
    fn a_rename_without_a_flush_can_lose_the_data_but_never_shows_both_names() {
        let mut disk = Disk::new(Survival::Journal, (0, 0), NOW);
        let number = file(&mut disk, "temporary", b"content");
        disk.change(Change::Rename((ROOT, "temporary".into()), (ROOT, "a".into()), number), NOW);
        assert!(outcomes(&disk, "a").contains(&Some(Vec::new())));
        for n in 0..500 {
            let left = disk.survivors(&mut Rng::of(n, "power", n));
            assert!(read(&left, "a").is_none() || read(&left, "temporary").is_none());
        }
    }
}
