//! A program that a person may keep waiting: it has a time limit, and Ctrl-C ends it without leaving anything behind.

use std::io;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use tokio::signal::unix::{SignalKind, signal};

/// The time between two looks at the program.
const PAUSE: Duration = Duration::from_millis(20);

/// How long a program that is asked to end may take to put the terminal in order.
const FAREWELL: Duration = Duration::from_secs(2);

/// How a program ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ChildEnd {
    /// By itself.
    Itself(ExitStatus),
    /// It took too long, and was ended.
    TimedOut,
    /// Somebody pressed Ctrl-C or sent SIGTERM.
    Interrupted,
}

/// Runs a program and waits for it up to `limit`.
pub(super) fn run(command: &mut Command, limit: Duration) -> io::Result<ChildEnd> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(async {
        // Before the program starts, so that no signal ends this process and leaves its files.
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let mut child = command.spawn()?;
        let deadline = Instant::now() + limit;
        let ended = loop {
            if let Some(status) = child.try_wait()? {
                return Ok(ChildEnd::Itself(status));
            }
            tokio::select! {
                _ = interrupt.recv() => break ChildEnd::Interrupted,
                _ = terminate.recv() => break ChildEnd::Interrupted,
                () = tokio::time::sleep(PAUSE) => {}
            }
            if Instant::now() >= deadline {
                break ChildEnd::TimedOut;
            }
        };
        end(&mut child)?;
        Ok(ended)
    })
}

/// Ends a program: politely first, for it may have switched the terminal's echo off.
fn end(child: &mut Child) -> io::Result<()> {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let deadline = Instant::now() + FAREWELL;
    while child.try_wait()?.is_none() {
        if Instant::now() >= deadline {
            child.kill()?;
            child.wait()?;
            break;
        }
        std::thread::sleep(PAUSE);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Command {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        command
    }

    #[test]
    fn what_takes_too_long_is_ended_also_if_it_does_not_want_to() {
        let minute = Duration::from_secs(60);
        let ChildEnd::Itself(status) = run(&mut shell("exit 7"), minute).unwrap() else {
            panic!()
        };
        assert_eq!(status.code(), Some(7));
        let began = Instant::now();
        let limit = Duration::from_millis(100);
        for script in ["exec sleep 100", "trap '' TERM; while :; do sleep 1; done"] {
            assert_eq!(run(&mut shell(script), limit).unwrap(), ChildEnd::TimedOut, "{script}");
        }
        assert!(began.elapsed() < minute);
    }
}
