//! The token that requests must have.

use std::path::Path;

use super::super::args::ServeArgs;
use super::super::exit::Failure;
use super::super::live::{is_equal, random_token};

/// The environment variable that may contain the token.
const VARIABLE: &str = "PIPE_SERVE_TOKEN";
const SHORTEST: usize = 16;

/// What a request needs to be answered.
pub(super) enum Token {
    /// A token that was made for this process.
    New(String),
    /// A token that the user gave.
    Given(String),
    /// Requests need no token.
    None,
}

impl Token {
    /// Chooses the token: from a file, from the environment, or a new one.
    pub(super) fn of(args: &ServeArgs) -> Result<Self, Failure> {
        if args.no_token {
            if !args.listen.ip().is_loopback() {
                return Err(Failure::bad_input(format!(
                    "--no-token is only for a loopback address such as 127.0.0.1: others could use the model at {}",
                    args.listen
                )));
            }
            return Ok(Self::None);
        }
        if let Some(path) = &args.token_file {
            return Self::read(path);
        }
        match std::env::var(VARIABLE) {
            Ok(token) => Self::given(&token, VARIABLE),
            Err(std::env::VarError::NotPresent) => Ok(Self::New(random_token()?)),
            Err(error) => Err(Failure::bad_input(format!("{VARIABLE}: {error}"))),
        }
    }

    fn read(path: &Path) -> Result<Self, Failure> {
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::bad_input(format!("--token-file {}: {error}", path.display())))?;
        Self::given(&text, &format!("--token-file {}", path.display()))
    }

    /// Checks a token that can be sent in a header. A message must not repeat it.
    fn given(token: &str, place: &str) -> Result<Self, Failure> {
        let token = token.trim();
        if token.len() < SHORTEST || !token.bytes().all(|byte| byte.is_ascii_graphic()) {
            let message =
                format!("{place}: a token has at least {SHORTEST} printable ASCII characters and no blanks");
            return Err(Failure::bad_input(message));
        }
        Ok(Self::Given(token.to_owned()))
    }

    /// Returns the token.
    pub(super) fn secret(&self) -> Option<&str> {
        match self {
            Self::New(token) | Self::Given(token) => Some(token),
            Self::None => None,
        }
    }

    /// Returns whether the token was made for this process, so that the user has to be told.
    pub(super) fn is_new(&self) -> bool {
        matches!(self, Self::New(_))
    }

    /// Returns whether the value of the header `Authorization` has the token, or none is needed.
    pub(super) fn accepts(&self, authorization: Option<&str>) -> bool {
        let Some(secret) = self.secret() else { return true };
        let given = authorization.and_then(|value| value.split_once(' '));
        given.is_some_and(|(scheme, given)| {
            scheme.eq_ignore_ascii_case("bearer") && is_equal(given.trim(), secret)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_right_bearer_token_is_accepted() {
        let token = Token::Given("0123456789abcdef".to_owned());
        for accepted in ["Bearer 0123456789abcdef", "bearer  0123456789abcdef"] {
            assert!(token.accepts(Some(accepted)), "{accepted}");
        }
        for refused in
            ["", "Bearer", "Bearer ", "0123456789abcdef", "Basic 0123456789abcdef", "Bearer 0123456789abcde"]
        {
            assert!(!token.accepts(Some(refused)), "{refused}");
        }
        assert!(!token.accepts(None) && Token::None.accepts(None));
    }

    #[test]
    fn a_token_that_is_short_or_cannot_be_sent_is_refused_without_repeating_it() {
        for token in ["", "short", "0123456789 abcdef", "0123456789abcdéf"] {
            let message = Token::given(token, "here").err().unwrap().text;
            assert!(message.starts_with("here: a token has at least 16"), "{message}");
            assert!(token.is_empty() || !message.contains(token), "{message}");
        }
        assert!(
            matches!(Token::given(" 0123456789abcdef\n", "here"), Ok(Token::Given(token)) if token.len() == 16)
        );
    }
}
