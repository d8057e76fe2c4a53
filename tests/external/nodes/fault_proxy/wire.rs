//! Where PostgreSQL's messages end, and which are about a COMMIT ("Frontend/Backend Protocol", version 3).

use std::sync::atomic::{AtomicUsize, Ordering};

const SSL_REQUEST: u32 = 80_877_103;
const GSS_REQUEST: u32 = 80_877_104;

/// A message, or so many bytes as belong together.
pub struct Message {
    pub bytes: Vec<u8>,
    /// A client asks for it, or the server says that it is done.
    pub is_commit: bool,
    /// How many answers of one byte it calls for.
    pub short_answers: usize,
}

impl Message {
    /// Whether a client waits for an answer from here on: a query, or the end of an extended one (Sync).
    pub fn asks(&self) -> bool {
        matches!(self.bytes.first(), Some(b'Q' | b'S'))
    }

    /// Whether the server has answered (ReadyForQuery).
    pub fn answers(&self) -> bool {
        self.bytes.first() == Some(&b'Z')
    }
}

/// Splits what a client sends.
#[derive(Default)]
pub struct FromClient {
    buffer: Vec<u8>,
    has_started: bool,
}

impl FromClient {
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    pub fn next(&mut self) -> Option<Message> {
        if self.has_started {
            let bytes = take(&mut self.buffer, 1)?;
            return Some(Message {
                is_commit: asks_for_commit(&bytes),
                short_answers: 0,
                bytes,
            });
        }
        // The first messages have no type.
        let bytes = take(&mut self.buffer, 0)?;
        let asks_for_encryption = matches!(number(&bytes, 4), Some(SSL_REQUEST | GSS_REQUEST));
        self.has_started = !asks_for_encryption;
        Some(Message {
            is_commit: false,
            short_answers: usize::from(asks_for_encryption),
            bytes,
        })
    }
}

/// Splits what a server sends.
#[derive(Default)]
pub struct FromServer {
    buffer: Vec<u8>,
}

impl FromServer {
    pub fn push(&mut self, bytes: &[u8]) {
        self.buffer.extend(bytes);
    }

    /// `short_answers` counts those that are still to come.
    pub fn next(&mut self, short_answers: &AtomicUsize) -> Option<Message> {
        let is_short = !self.buffer.is_empty() && short_answers.load(Ordering::SeqCst) > 0;
        let bytes = if is_short {
            short_answers.fetch_sub(1, Ordering::SeqCst);
            let byte = self.buffer.remove(0);
            assert_ne!(byte, b'S', "what is encrypted cannot be looked into: sslmode=disable");
            vec![byte]
        } else {
            take(&mut self.buffer, 1)?
        };
        Some(Message {
            is_commit: bytes.starts_with(b"C") && &bytes[5..] == b"COMMIT\0",
            short_answers: 0,
            bytes,
        })
    }
}

/// The first message, if it is complete; its length comes after `before` bytes and counts itself.
fn take(buffer: &mut Vec<u8>, before: usize) -> Option<Vec<u8>> {
    let length = before + number(buffer, before)? as usize;
    if buffer.len() < length {
        return None;
    }
    let rest = buffer.split_off(length);
    Some(std::mem::replace(buffer, rest))
}

fn number(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().map(|four| u32::from_be_bytes(*four))
}

/// A query, or a statement to be prepared, whose last word is COMMIT.
fn asks_for_commit(message: &[u8]) -> bool {
    // Behind the text of a statement stand the number of its parameters and their types.
    let text = match message.first() {
        Some(b'Q') => &message[5..],
        Some(b'P') => message[5..].splitn(3, |byte| *byte == 0).nth(1).unwrap_or_default(),
        _ => return false,
    };
    let text = String::from_utf8_lossy(text);
    let text = text.trim_matches(|c: char| c == '\0' || c == ';' || c.is_whitespace());
    let last = text.rsplit(|c: char| c == ';' || c.is_whitespace()).next();
    last.is_some_and(|word| word.eq_ignore_ascii_case("commit"))
}
