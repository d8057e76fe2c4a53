//! The log of a server under test. What it wrote before it answered is here when the answer is.

use std::io::{ErrorKind, Read as _};
use std::os::fd::{AsFd as _, OwnedFd};
use std::process::ChildStderr;
use std::sync::{Arc, Mutex};
use std::thread;

use rustix::event::{PollFd, PollFlags, poll};
use rustix::io::ioctl_fionread;

/// What a server wrote to its stderr so far.
pub struct ServerLog {
    read: Arc<Mutex<Vec<u8>>>,
    pipe: OwnedFd,
}

impl ServerLog {
    /// Reads it as it comes, so that the server never waits.
    pub fn of(mut stderr: ChildStderr) -> Self {
        let log = Self {
            read: Arc::default(),
            pipe: stderr.as_fd().try_clone_to_owned().unwrap(),
        };
        let read = Arc::clone(&log.read);
        thread::spawn(move || {
            let mut part = vec![0; 64 << 10];
            loop {
                // Not under the lock, because it waits.
                if poll(&mut [PollFd::new(&stderr, PollFlags::IN)], None).is_err() {
                    continue;
                }
                let mut read = read.lock().unwrap();
                match stderr.read(&mut part) {
                    Err(error) if error.kind() == ErrorKind::Interrupted => {}
                    Ok(0) | Err(_) => return,
                    Ok(length) => read.extend_from_slice(&part[..length]),
                }
            }
        });
        log
    }

    /// The text, with all that is written by now.
    pub fn text(&self) -> String {
        loop {
            // Nothing moves from the pipe to the text under the lock.
            let read = self.read.lock().unwrap();
            if ioctl_fionread(&self.pipe).unwrap() == 0 {
                return String::from_utf8_lossy(&read).into_owned();
            }
            drop(read);
            thread::yield_now();
        }
    }
}
