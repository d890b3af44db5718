//! Serves a [`Disk`] through FUSE.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::{Duration, SystemTime};

use anyhow::{Context, Result};
use fuser::consts::FUSE_FLOCK_LOCKS;
use fuser::{
    FileAttr, FileType, Filesystem, KernelConfig, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow,
};
use libc::c_int;

use super::disk::{Attributes, Change, Content, Disk, Node, ROOT, Survival};
use crate::mount::Mount;
use crate::rng::Rng;

/// A disk with a switch: it can be mounted several times, and its power can be cut.
#[derive(Clone)]
pub struct Power(Arc<Mutex<State>>);

struct State {
    disk: Disk,
    /// The number of changes after which the power is cut.
    cut_after: Option<usize>,
    is_off: bool,
    next_handle: u64,
    locks: Vec<Lock>,
    waiting: Vec<(Lock, ReplyEmpty)>,
}

/// A lock of `flock`, which belongs to an open file.
#[derive(Clone, PartialEq)]
struct Lock {
    number: u64,
    handle: u64,
    exclusive: bool,
}

impl Lock {
    fn conflicts(&self, other: &Self) -> bool {
        self.number == other.number && self.handle != other.handle && (self.exclusive || other.exclusive)
    }
}

/// How soon a machine sees what another one does.
#[derive(Clone, Copy)]
pub struct Visibility {
    /// How long names and attributes may be out of date.
    pub outdated: Duration,
    /// How long every request takes.
    pub delay: Duration,
    /// Whether two names can be exchanged, which network file systems refuse.
    pub can_exchange: bool,
}

impl Visibility {
    /// A local disk.
    pub const LOCAL: Self = Self { outdated: Duration::ZERO, delay: Duration::ZERO, can_exchange: true };
}

impl Power {
    /// Makes an empty disk.
    pub fn on(survival: Survival) -> Self {
        let owner = (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw());
        Self::of(Disk::new(survival, owner, SystemTime::now()))
    }

    fn of(disk: Disk) -> Self {
        let (locks, waiting) = (Vec::new(), Vec::new());
        Self(Arc::new(Mutex::new(State {
            disk,
            cut_after: None,
            is_off: false,
            next_handle: 1,
            locks,
            waiting,
        })))
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
    }

    /// Mounts the disk.
    pub fn mount(&self, at: &std::path::Path, visibility: Visibility) -> Result<Mount> {
        std::fs::create_dir_all(at)?;
        let server = Server { power: self.clone(), visibility };
        let options =
            [fuser::MountOption::FSName("faults".to_owned()), fuser::MountOption::DefaultPermissions];
        let session = fuser::spawn_mount2(server, at, &options);
        Ok(Mount::served(at, session.with_context(|| format!("cannot mount {}", at.display()))?))
    }

    /// Flushes everything that was written.
    pub fn flush_all(&self) {
        self.state().disk.flush_all();
    }

    /// Cuts the power after so many further changes.
    pub fn cut_after(&self, changes: usize) {
        let mut state = self.state();
        state.cut_after = Some(state.disk.changes() + changes);
    }

    /// Returns whether the power was cut. Every request then fails.
    pub fn is_off(&self) -> bool {
        self.state().is_off
    }

    /// Returns a disk with what survives.
    pub fn restart(&self, rng: &mut Rng) -> Self {
        let mut state = self.state();
        state.is_off = true;
        Self::of(state.disk.survivors(rng))
    }
}

impl State {
    fn change(&mut self, change: Change) {
        self.disk.change(change, SystemTime::now());
        self.is_off |= self.cut_after.is_some_and(|end| self.disk.changes() >= end);
    }

    fn attributes(&self, number: u64) -> Answer<FileAttr> {
        let node = self.disk.node(number).ok_or(libc::ENOENT)?;
        let (kind, size) = match &node.content {
            Content::File(content) => (FileType::RegularFile, content.len()),
            Content::Directory(entries) => (FileType::Directory, entries.len()),
            Content::Link(target) => (FileType::Symlink, target.len()),
        };
        Ok(FileAttr {
            ino: number,
            size: size as u64,
            blocks: size.div_ceil(512) as u64,
            atime: node.attributes.modified,
            mtime: node.attributes.modified,
            ctime: node.attributes.changed,
            crtime: node.attributes.changed,
            kind,
            perm: node.attributes.mode,
            nlink: if kind == FileType::Directory { 2 } else { self.disk.names(number) },
            uid: node.attributes.owner.0,
            gid: node.attributes.owner.1,
            rdev: 0,
            blksize: 4096,
            flags: 0,
        })
    }

    fn create(
        &mut self,
        request: &Request<'_>,
        parent: u64,
        name: &OsStr,
        mode: u32,
        content: Content,
    ) -> Answer<FileAttr> {
        let place = (parent, name.to_owned());
        if self.disk.find(&place).is_some() {
            return Err(libc::EEXIST);
        }
        let now = SystemTime::now();
        let owner = (request.uid(), request.gid());
        let attributes = Attributes { mode: (mode & 0o7777) as u16, owner, modified: now, changed: now };
        let node = Node { attributes, content };
        let number = self.disk.number();
        self.change(Change::Create(place, number, node));
        self.touch(parent);
        self.attributes(number)
    }

    /// Notes that the entries of a directory changed.
    fn touch(&mut self, directory: u64) {
        if let Some(node) = self.disk.node(directory) {
            let now = SystemTime::now();
            let attributes = Attributes { modified: now, changed: now, ..node.attributes };
            self.change(Change::Attributes(directory, attributes));
        }
    }

    fn remove(&mut self, parent: u64, name: &OsStr, directory: bool) -> Answer<()> {
        let place = (parent, name.to_owned());
        let number = self.disk.find(&place).ok_or(libc::ENOENT)?;
        match &self.disk.node(number).ok_or(libc::ENOENT)?.content {
            Content::Directory(entries) if directory && !entries.is_empty() => return Err(libc::ENOTEMPTY),
            Content::Directory(_) if !directory => return Err(libc::EISDIR),
            Content::File(_) | Content::Link(_) if directory => return Err(libc::ENOTDIR),
            _ => {}
        }
        self.change(Change::Remove(place));
        self.touch(parent);
        Ok(())
    }

    fn rename(&mut self, from: (u64, &OsStr), to: (u64, &OsStr), flags: u32) -> Answer<()> {
        let (old, new) = ((from.0, from.1.to_owned()), (to.0, to.1.to_owned()));
        let number = self.disk.find(&old).ok_or(libc::ENOENT)?;
        match (flags, self.disk.find(&new)) {
            (libc::RENAME_EXCHANGE, None) => return Err(libc::ENOENT),
            (libc::RENAME_EXCHANGE, Some(there)) => {
                self.change(Change::Exchange((old, number), (new, there)));
            }
            (libc::RENAME_NOREPLACE, Some(_)) => return Err(libc::EEXIST),
            (0 | libc::RENAME_NOREPLACE, there) => {
                let content = there.and_then(|there| self.disk.node(there)).map(|node| &node.content);
                if matches!(content, Some(Content::Directory(entries)) if !entries.is_empty()) {
                    return Err(libc::ENOTEMPTY);
                }
                self.change(Change::Rename(old, new, number));
            }
            _ => return Err(libc::EINVAL),
        }
        // A rename changes the time of the file, as on other file systems.
        if let Some(node) = self.disk.node(number) {
            let attributes = Attributes { changed: SystemTime::now(), ..node.attributes };
            self.change(Change::Attributes(number, attributes));
        }
        self.touch(from.0);
        self.touch(to.0);
        Ok(())
    }

    fn handle(&mut self) -> u64 {
        self.next_handle += 1;
        self.next_handle
    }

    /// Gives locks to those who wait for them.
    fn grant(&mut self) {
        for (lock, reply) in std::mem::take(&mut self.waiting) {
            if self.locks.iter().any(|held| held.conflicts(&lock)) {
                self.waiting.push((lock, reply));
            } else {
                self.locks.push(lock);
                reply.ok();
            }
        }
    }
}

type Answer<T> = Result<T, c_int>;

/// One mount.
struct Server {
    power: Power,
    visibility: Visibility,
}

impl Server {
    /// Does something with the state, unless there is no power.
    fn with<T>(&self, act: impl FnOnce(&mut State) -> Answer<T>) -> Answer<T> {
        std::thread::sleep(self.visibility.delay);
        let mut state = self.power.state();
        if state.is_off {
            return Err(libc::EIO);
        }
        act(&mut state)
    }

    fn entry(&self, reply: ReplyEntry, found: Answer<FileAttr>) {
        match found {
            Ok(attributes) => reply.entry(&self.visibility.outdated, &attributes, 0),
            Err(error) => reply.error(error),
        }
    }

    fn empty(reply: ReplyEmpty, done: Answer<()>) {
        match done {
            Ok(()) => reply.ok(),
            Err(error) => reply.error(error),
        }
    }
}

impl Filesystem for Server {
    fn init(&mut self, _: &Request<'_>, config: &mut KernelConfig) -> Result<(), c_int> {
        let _ = config.add_capabilities(FUSE_FLOCK_LOCKS);
        Ok(())
    }

    fn lookup(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEntry) {
        let found = self.with(|state| {
            let number = state.disk.find(&(parent, name.to_owned())).ok_or(libc::ENOENT)?;
            state.attributes(number)
        });
        self.entry(reply, found);
    }

    fn getattr(&mut self, _: &Request<'_>, number: u64, _: Option<u64>, reply: ReplyAttr) {
        match self.with(|state| state.attributes(number)) {
            Ok(attributes) => reply.attr(&self.visibility.outdated, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn setattr(
        &mut self,
        _: &Request<'_>,
        number: u64,
        mode: Option<u32>,
        user: Option<u32>,
        group: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        modified: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<u64>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<u32>,
        reply: ReplyAttr,
    ) {
        let set = self.with(|state| {
            if let Some(size) = size {
                state.change(Change::SetLength(number, size as usize));
            }
            let node = state.disk.node(number).ok_or(libc::ENOENT)?;
            let modified = match modified {
                Some(TimeOrNow::SpecificTime(time)) => time,
                Some(TimeOrNow::Now) => SystemTime::now(),
                None => node.attributes.modified,
            };
            let mode = mode.map_or(node.attributes.mode, |mode| (mode & 0o7777) as u16);
            let owner = (user.unwrap_or(node.attributes.owner.0), group.unwrap_or(node.attributes.owner.1));
            let attributes = Attributes { mode, owner, modified, changed: SystemTime::now() };
            state.change(Change::Attributes(number, attributes));
            state.attributes(number)
        });
        match set {
            Ok(attributes) => reply.attr(&self.visibility.outdated, &attributes),
            Err(error) => reply.error(error),
        }
    }

    fn readlink(&mut self, _: &Request<'_>, number: u64, reply: ReplyData) {
        let target = self.with(|state| match state.disk.node(number).map(|node| &node.content) {
            Some(Content::Link(target)) => Ok(target.clone()),
            _ => Err(libc::EINVAL),
        });
        match target {
            Ok(target) => reply.data(target.as_bytes()),
            Err(error) => reply.error(error),
        }
    }

    fn mkdir(
        &mut self,
        request: &Request<'_>,
        parent: u64,
        name: &OsStr,
        mode: u32,
        umask: u32,
        reply: ReplyEntry,
    ) {
        let content = Content::Directory(std::collections::BTreeMap::new());
        let made = self.with(|state| state.create(request, parent, name, mode & !umask, content));
        self.entry(reply, made);
    }

    fn unlink(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEmpty) {
        Self::empty(reply, self.with(|state| state.remove(parent, name, false)));
    }

    fn rmdir(&mut self, _: &Request<'_>, parent: u64, name: &OsStr, reply: ReplyEmpty) {
        Self::empty(reply, self.with(|state| state.remove(parent, name, true)));
    }

    fn symlink(
        &mut self,
        request: &Request<'_>,
        parent: u64,
        name: &OsStr,
        to: &std::path::Path,
        reply: ReplyEntry,
    ) {
        let content = Content::Link(OsString::from(to));
        let made = self.with(|state| state.create(request, parent, name, 0o777, content));
        self.entry(reply, made);
    }

    fn rename(
        &mut self,
        _: &Request<'_>,
        parent: u64,
        name: &OsStr,
        new_parent: u64,
        new_name: &OsStr,
        flags: u32,
        reply: ReplyEmpty,
    ) {
        let is_refused = flags & libc::RENAME_EXCHANGE != 0 && !self.visibility.can_exchange;
        let renamed = self.with(|state| {
            if is_refused {
                return Err(libc::EINVAL);
            }
            state.rename((parent, name), (new_parent, new_name), flags)
        });
        Self::empty(reply, renamed);
    }

    fn link(&mut self, _: &Request<'_>, number: u64, parent: u64, name: &OsStr, reply: ReplyEntry) {
        let linked = self.with(|state| {
            let place = (parent, name.to_owned());
            if state.disk.find(&place).is_some() {
                return Err(libc::EEXIST);
            }
            state.change(Change::Link(place, number));
            state.touch(parent);
            state.attributes(number)
        });
        self.entry(reply, linked);
    }

    fn open(&mut self, _: &Request<'_>, _: u64, _: i32, reply: ReplyOpen) {
        match self.with(|state| Ok(state.handle())) {
            Ok(handle) => reply.opened(handle, 0),
            Err(error) => reply.error(error),
        }
    }

    fn create(
        &mut self,
        request: &Request<'_>,
        parent: u64,
        name: &OsStr,
        mode: u32,
        umask: u32,
        flags: i32,
        reply: ReplyCreate,
    ) {
        let made = self.with(|state| {
            // The other machine may have created the file in the meantime.
            let there = state.disk.find(&(parent, name.to_owned())).filter(|_| flags & libc::O_EXCL == 0);
            let attributes = match there {
                Some(number) => state.attributes(number)?,
                None => state.create(request, parent, name, mode & !umask, Content::File(Vec::new()))?,
            };
            Ok((attributes, state.handle()))
        });
        match made {
            Ok((attributes, handle)) => reply.created(&self.visibility.outdated, &attributes, 0, handle, 0),
            Err(error) => reply.error(error),
        }
    }

    fn read(
        &mut self,
        _: &Request<'_>,
        number: u64,
        _: u64,
        offset: i64,
        size: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyData,
    ) {
        let bytes = self.with(|state| match state.disk.node(number).map(|node| &node.content) {
            Some(Content::File(content)) => {
                let start = (offset as usize).min(content.len());
                Ok(content[start..content.len().min(start + size as usize)].to_vec())
            }
            _ => Err(libc::EIO),
        });
        match bytes {
            Ok(bytes) => reply.data(&bytes),
            Err(error) => reply.error(error),
        }
    }

    fn write(
        &mut self,
        _: &Request<'_>,
        number: u64,
        _: u64,
        offset: i64,
        data: &[u8],
        _: u32,
        _: i32,
        _: Option<u64>,
        reply: ReplyWrite,
    ) {
        let written = self.with(|state| {
            state.change(Change::Write(number, offset as usize, data.to_vec()));
            Ok(data.len() as u32)
        });
        match written {
            Ok(length) => reply.written(length),
            Err(error) => reply.error(error),
        }
    }

    fn flush(&mut self, _: &Request<'_>, _: u64, _: u64, _: u64, reply: ReplyEmpty) {
        reply.ok();
    }

    fn release(
        &mut self,
        _: &Request<'_>,
        _: u64,
        handle: u64,
        _: i32,
        _: Option<u64>,
        _: bool,
        reply: ReplyEmpty,
    ) {
        let mut state = self.power.state();
        state.locks.retain(|lock| lock.handle != handle);
        state.grant();
        reply.ok();
    }

    fn fsync(&mut self, _: &Request<'_>, number: u64, _: u64, _: bool, reply: ReplyEmpty) {
        let flushed = self.with(|state| {
            state.disk.flush(number);
            Ok(())
        });
        Self::empty(reply, flushed);
    }

    fn fsyncdir(&mut self, request: &Request<'_>, number: u64, handle: u64, data: bool, reply: ReplyEmpty) {
        self.fsync(request, number, handle, data, reply);
    }

    fn readdir(&mut self, _: &Request<'_>, number: u64, _: u64, offset: i64, mut reply: ReplyDirectory) {
        let listed = self.with(|state| {
            let Some(Content::Directory(entries)) = state.disk.node(number).map(|node| &node.content) else {
                return Err(libc::ENOTDIR);
            };
            let kind = |number: u64| match state.disk.node(number).map(|node| &node.content) {
                Some(Content::Directory(_)) => FileType::Directory,
                Some(Content::Link(_)) => FileType::Symlink,
                _ => FileType::RegularFile,
            };
            let own = [(OsString::from("."), number), (OsString::from(".."), ROOT)];
            let all = own.into_iter().chain(entries.iter().map(|(name, number)| (name.clone(), *number)));
            Ok(all.map(|(name, number)| (name, number, kind(number))).collect::<Vec<_>>())
        });
        match listed {
            Ok(entries) => {
                for (n, (name, number, kind)) in entries.into_iter().enumerate().skip(offset as usize) {
                    if reply.add(number, n as i64 + 1, kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(error) => reply.error(error),
        }
    }

    fn statfs(&mut self, _: &Request<'_>, _: u64, reply: ReplyStatfs) {
        reply.statfs(1 << 20, 1 << 20, 1 << 20, 1 << 20, 1 << 20, 4096, 255, 4096);
    }

    fn setlk(
        &mut self,
        _: &Request<'_>,
        number: u64,
        handle: u64,
        _: u64,
        _: u64,
        _: u64,
        kind: i32,
        _: u32,
        wait: bool,
        reply: ReplyEmpty,
    ) {
        let mut state = self.power.state();
        state.locks.retain(|lock| lock.handle != handle);
        let lock = Lock { number, handle, exclusive: kind == i32::from(libc::F_WRLCK as i16) };
        if kind == i32::from(libc::F_UNLCK as i16) {
            reply.ok();
        } else if !state.locks.iter().any(|held| held.conflicts(&lock)) {
            state.locks.push(lock);
            reply.ok();
        } else if wait {
            state.waiting.push((lock, reply));
        } else {
            reply.error(libc::EAGAIN);
        }
        state.grant();
    }
}
