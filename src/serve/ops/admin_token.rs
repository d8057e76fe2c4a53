//! The token that proves that who asks the admin listener may read the store's folder.
//!
//! `serve` makes one at each start and writes it to a file that only its user can read. Health and metrics need none.

use std::io;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use zeroize::Zeroizing;

/// A token of 256 random bits, as 64 hex digits. It has no `Debug` and no `Display`.
pub struct AdminToken(Zeroizing<String>);

impl AdminToken {
    /// Makes a token.
    ///
    /// # Errors
    /// The system has no random numbers.
    pub fn random() -> io::Result<Self> {
        let mut bytes = Zeroizing::new([0; 32]);
        getrandom::fill(&mut *bytes).map_err(io::Error::other)?;
        Ok(Self(Zeroizing::new(const_hex::encode(*bytes))))
    }

    /// The token as text, to write it to its file.
    // SECURITY: it may go to that file only, never to a log or a response.
    pub fn reveal(&self) -> &str {
        &self.0
    }

    /// Whether the value of an `Authorization` header is this token (RFC 6750 section 2.1).
    // SECURITY: compared in constant time, so that the answer's time does not tell how much of a guess is right.
    pub(crate) fn is_given(&self, authorization: Option<&str>) -> bool {
        let given = authorization.and_then(|value| value.strip_prefix("Bearer "));
        given.is_some_and(|given| verify_slices_are_equal(given.as_bytes(), self.0.as_bytes()).is_ok())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_token_is_taken() {
        let token = AdminToken::random().unwrap();
        let text = token.reveal().to_owned();
        assert_eq!(text.len(), 64);
        assert!(token.is_given(Some(&format!("Bearer {text}"))));
        let other = AdminToken::random().unwrap();
        for given in [
            None,
            Some(String::new()),
            Some("Bearer ".to_owned()),
            Some(text.clone()),
            Some(format!("Bearer {}", &text[1..])),
            Some(format!("Bearer {text}0")),
            Some(format!("Basic {text}")),
            Some(format!("Bearer {}", other.reveal())),
        ] {
            assert!(!token.is_given(given.as_deref()), "{given:?}");
        }
    }
}
