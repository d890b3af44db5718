//! Copies files and goes on after a signal.

use std::fs::File;
use std::io::{self, ErrorKind, Seek};

/// Copies everything from the present position of a file to that of another one, and returns how much it was.
///
/// `io::copy` lets the kernel do this, and fails if a signal arrives meanwhile whose handler does not ask for calls to be restarted.
pub fn copy_rest(from: &mut File, to: &mut File) -> io::Result<u64> {
    let start = from.stream_position()?;
    loop {
        match io::copy(from, to) {
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
            Ok(_) => return Ok(from.stream_position()?.saturating_sub(start)),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::{Read, SeekFrom, Write};
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    extern "C" fn ignore(_: libc::c_int) {}

    #[test]
    fn signals_do_not_interrupt_a_copy() {
        // SAFETY: all zeros are a valid action, and the handler does nothing.
        unsafe {
            let mut action: libc::sigaction = std::mem::zeroed();
            action.sa_sigaction = ignore as *const () as usize;
            assert_eq!(libc::sigaction(libc::SIGUSR2, &raw const action, std::ptr::null_mut()), 0);
        }
        let content: Vec<u8> = (0..8_000_000_u32).flat_map(u32::to_le_bytes).collect();
        let [mut from, mut to] = [0; 2].map(|_| tempfile::tempfile().unwrap());
        from.write_all(&content).unwrap();
        from.seek(SeekFrom::Start(4)).unwrap();
        let ended = AtomicBool::new(false);
        // SAFETY: returns the id of the calling thread.
        let copier = unsafe { libc::pthread_self() };
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ended.load(Ordering::SeqCst) {
                    // SAFETY: the copying thread lives until this scope ends.
                    unsafe { libc::pthread_kill(copier, libc::SIGUSR2) };
                }
            });
            let copied = copy_rest(&mut from, &mut to);
            ended.store(true, Ordering::SeqCst);
            assert_eq!(copied.unwrap(), content.len() as u64 - 4);
        });
        let mut copy = Vec::new();
        to.seek(SeekFrom::Start(0)).unwrap();
        to.read_to_end(&mut copy).unwrap();
        assert!(copy == content[4..], "the copy is complete and in order");
    }
}
