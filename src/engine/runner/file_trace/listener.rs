//! The seccomp filter of an observed command, and the file descriptor on which its system calls arrive.
//!
//! Written by hand because the crates for seccomp either need the C library libseccomp or have no notifications.

use std::io::{self, IoSlice, IoSliceMut};
use std::mem::{MaybeUninit, size_of};
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, OwnedFd};
use std::os::unix::net::UnixStream;

use libc::{
    BPF_ABS, BPF_JEQ, BPF_JMP, BPF_K, BPF_LD, BPF_RET, BPF_W, SECCOMP_FILTER_FLAG_NEW_LISTENER,
    SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, SECCOMP_RET_ALLOW, SECCOMP_RET_USER_NOTIF, c_long, c_ulong,
    seccomp_data, seccomp_notif, seccomp_notif_resp, sock_filter, sock_fprog,
};
use rustix::net::{
    RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer, SendAncillaryMessage,
    SendFlags, recvmsg, sendmsg,
};

/// `AUDIT_ARCH_*` of the processor for which `pipe` was built; the numbers of system calls are those of this processor.
const PROCESSOR: u32 = if cfg!(target_arch = "x86_64") {
    0xc000_003e
} else if cfg!(target_arch = "aarch64") {
    0xc000_00b7
} else if cfg!(target_arch = "riscv64") {
    0xc000_00f3
} else {
    0
};

/// The system calls that are observed. Newer processors have only those that take a directory.
const OBSERVED: &[c_long] = &[
    #[cfg(target_arch = "x86_64")]
    libc::SYS_open,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_creat,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_link,
    #[cfg(target_arch = "x86_64")]
    libc::SYS_rename,
    #[cfg(not(target_arch = "riscv64"))]
    libc::SYS_renameat,
    libc::SYS_openat,
    libc::SYS_openat2,
    libc::SYS_execve,
    libc::SYS_execveat,
    libc::SYS_linkat,
    libc::SYS_renameat2,
];

/// A filter that reports the observed system calls and allows all others.
pub(super) struct Filter(Vec<sock_filter>);

impl Filter {
    pub(super) fn new() -> Self {
        let load = |offset: usize| statement(BPF_LD | BPF_W | BPF_ABS, offset as u32);
        let count = OBSERVED.len() as u8;
        let mut program = vec![
            load(std::mem::offset_of!(seccomp_data, arch)),
            // A system call of another processor type, such as of a 32-bit program, has other numbers.
            jump_if_equal(PROCESSOR, 0, count + 1),
            load(std::mem::offset_of!(seccomp_data, nr)),
        ];
        for (position, &number) in OBSERVED.iter().enumerate() {
            program.push(jump_if_equal(number as u32, count - position as u8, 0));
        }
        program.push(statement(BPF_RET | BPF_K, SECCOMP_RET_ALLOW));
        program.push(statement(BPF_RET | BPF_K, SECCOMP_RET_USER_NOTIF));
        Self(program)
    }

    /// Installs the filter in the calling thread and sends the descriptor for its notifications. Does not allocate.
    pub(super) fn install_and_send(&self, to: &UnixStream) -> io::Result<()> {
        let listener = self.install()?;
        let listener = [listener.as_fd()];
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        control.push(SendAncillaryMessage::ScmRights(&listener));
        sendmsg(to, &[IoSlice::new(&[0])], &mut control, SendFlags::NOSIGNAL)?;
        Ok(())
    }

    /// Installs the filter in the calling thread, for ever. Does not allocate.
    fn install(&self) -> io::Result<OwnedFd> {
        let program = sock_fprog { len: self.0.len() as u16, filter: self.0.as_ptr().cast_mut() };
        const NONE: c_ulong = 0;
        let mut error = io::Error::from_raw_os_error(libc::ENOSYS);
        for may_gain_rights in [true, false] {
            if !may_gain_rights {
                // Only root may install a filter without this. It takes the effect of setuid programs.
                // SAFETY: this sets one flag of the calling thread.
                unsafe { libc::prctl(libc::PR_SET_NO_NEW_PRIVS, 1 as c_ulong, NONE, NONE, NONE) };
            }
            // With the second flag (Linux 5.19), a signal does not interrupt an observed call, as it would not without us.
            for flags in [SECCOMP_FILTER_FLAG_WAIT_KILLABLE_RECV, 0] {
                let flags = SECCOMP_FILTER_FLAG_NEW_LISTENER | flags;
                // SAFETY: the program is alive and has the stated length. The kernel copies it.
                let listener = unsafe {
                    libc::syscall(libc::SYS_seccomp, libc::SECCOMP_SET_MODE_FILTER, flags, &raw const program)
                };
                if listener >= 0 {
                    // SAFETY: the kernel has just opened it for us.
                    return Ok(unsafe { OwnedFd::from_raw_fd(listener as i32) });
                }
                error = io::Error::last_os_error();
            }
        }
        Err(error)
    }
}

fn statement(code: u32, k: u32) -> sock_filter {
    sock_filter { code: code as u16, jt: 0, jf: 0, k }
}

fn jump_if_equal(value: u32, if_equal: u8, otherwise: u8) -> sock_filter {
    sock_filter { code: (BPF_JMP | BPF_JEQ | BPF_K) as u16, jt: if_equal, jf: otherwise, k: value }
}

/// Returns why file accesses cannot be observed on this machine, or `None` if they can.
pub fn unavailable() -> Option<String> {
    if PROCESSOR == 0 {
        return Some("this processor type is not supported".to_owned());
    }
    // A filter concerns one thread, and ends with it.
    let thread = std::thread::Builder::new().spawn(|| Filter::new().install().map(drop));
    let installed = thread.and_then(|thread| {
        thread.join().unwrap_or_else(|_| Err(io::Error::other("the thread that tried it failed")))
    });
    let error = installed.err()?;
    Some(match error.raw_os_error() {
        Some(libc::EBUSY) => {
            "this process is itself observed, for example by `pipe run --sandbox`".to_owned()
        }
        _ => format!("seccomp notifications are not available (they need Linux 5.5 or later): {error}"),
    })
}

/// The descriptor on which the observed system calls of a command arrive.
pub(super) struct Listener(OwnedFd);

impl Listener {
    /// Receives what [`Filter::install_and_send`] sent; `None` if there was nothing.
    pub(super) fn receive(from: &UnixStream) -> io::Result<Option<Self>> {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(1))];
        let mut control = RecvAncillaryBuffer::new(&mut space);
        let mut byte = [0];
        recvmsg(from, &mut [IoSliceMut::new(&mut byte)], &mut control, RecvFlags::CMSG_CLOEXEC)?;
        let received = control.drain().find_map(|message| match message {
            RecvAncillaryMessage::ScmRights(mut files) => files.next(),
            _ => None,
        });
        Ok(received.map(Self))
    }

    pub(super) fn as_fd(&self) -> BorrowedFd<'_> {
        self.0.as_fd()
    }

    /// Returns a system call that waits for [`Self::let_go_on`]; `None` if its thread has ended meanwhile.
    pub(super) fn next_call(&self) -> io::Result<Option<seccomp_notif>> {
        let mut call = MaybeUninit::<seccomp_notif>::zeroed();
        // SAFETY: the pointer is to a zeroed value of the type that this request writes.
        let received =
            unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_RECV, call.as_mut_ptr()) };
        if received == 0 {
            // SAFETY: zeroed is a valid value, and the kernel has filled it in.
            return Ok(Some(unsafe { call.assume_init() }));
        }
        let error = io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::ENOENT | libc::EINTR) => Ok(None),
            _ => Err(error),
        }
    }

    /// Returns whether the system call still waits, so that what was read of its process belongs to it.
    pub(super) fn still_waits(&self, call: &seccomp_notif) -> bool {
        // SAFETY: the pointer is to a live value of the type that this request reads.
        let valid = unsafe {
            libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_ID_VALID, &raw const call.id)
        };
        valid == 0
    }

    /// Lets the system call go on as if it had not been observed.
    pub(super) fn let_go_on(&self, call: &seccomp_notif) {
        let flags = libc::SECCOMP_USER_NOTIF_FLAG_CONTINUE as u32;
        let mut response = seccomp_notif_resp { id: call.id, val: 0, error: 0, flags };
        // If its thread has ended meanwhile, there is nobody to answer.
        // SAFETY: the pointer is to a live value of the type that this request reads.
        let _ = unsafe { libc::ioctl(self.0.as_raw_fd(), libc::SECCOMP_IOCTL_NOTIF_SEND, &raw mut response) };
    }
}

// The kernel may have larger structures than we were built with; this is the size that it accepts from us.
const _: () = assert!(size_of::<seccomp_notif>() == 80 && size_of::<seccomp_notif_resp>() == 24);
