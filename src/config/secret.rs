//! A secret, and what a secret must be to be worth its name.
//!
//! Called by [`super::secrets`] for every secret that is configured, whatever it
//! is for. Nothing here, and no error, shows anything of one.

use std::fmt;
use std::sync::Arc;

use subtle::ConstantTimeEq;
use zeroize::Zeroizing;

/// Fewest characters: as many as 128 bits have in hexadecimal.
const SHORTEST: usize = 32;
/// Fewest characters of a password: a database slows down whoever guesses.
const SHORTEST_PASSWORD: usize = 12;
/// Most characters: a header has to hold it.
const LONGEST: usize = 512;
/// Fewest different characters. Of 32 random hexadecimal digits about 14 differ.
const VARIED: usize = 8;

/// What people write where a secret is to come, in lower case.
const PLACEHOLDERS: &[&str] = &[
    "change-me",
    "change_me",
    "changeme",
    "changeit",
    "example",
    "insert-",
    "insert_",
    "password",
    "placeholder",
    "replace",
    "secret",
    "xxxxxx",
    "your-",
    "your_",
];
/// What templates leave behind that nobody filled in.
const TEMPLATES: &[(&str, &str)] = &[
    ("<", ">"),
    ("${", "}"),
    ("{{", "}}"),
    ("$(", ")"),
    ("%", "%"),
];

/// A text that nobody may see. It cannot be printed, and its memory is wiped
/// when the last of its clones is gone.
#[derive(Clone)]
pub struct Secret(Arc<Zeroizing<String>>);

/// Why a text is no good as a secret.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum SecretError {
    /// Nothing is there.
    #[error("nothing is in it")]
    Empty,
    /// It is none at all yet.
    #[error("this is a placeholder")]
    Placeholder,
    /// Blanks or line breaks in the middle or at the ends.
    #[error("white space is in it")]
    WhiteSpace,
    /// Characters that a header cannot carry.
    #[error("characters are in it that are no printable ASCII")]
    Character,
    /// Too easily guessed.
    #[error("shorter than {SHORTEST} characters")]
    Short,
    /// Too easily guessed, even by somebody who has to ask the database.
    #[error("shorter than {SHORTEST_PASSWORD} characters")]
    ShortPassword,
    /// No header holds it.
    #[error("longer than {LONGEST} characters")]
    Long,
    /// Too easily guessed.
    #[error("fewer than {VARIED} different characters are in it")]
    Monotonous,
    /// Too easily guessed.
    #[error("it is one text over and over")]
    Repeated,
}

impl SecretError {
    /// What to do about it.
    pub fn help(self) -> &'static str {
        match self {
            Self::WhiteSpace => {
                "one line without blanks; a line break at its end is the only one that is passed over"
            }
            Self::ShortPassword => {
                "give the role a longer one in the database: openssl rand -hex 32"
            }
            _ => {
                "make one with: sessionguard keys create (a running broker) or openssl rand -hex 32"
            }
        }
    }
}

impl Secret {
    /// Takes a text as it is.
    pub fn new(text: String) -> Self {
        Self(Arc::new(Zeroizing::new(text)))
    }

    /// Takes a text that somebody chose, if it is good enough. One line break
    /// at its end is passed over, as editors and `echo` leave one.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn chosen(text: &str) -> Result<Self, SecretError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        judge(text)?;
        Ok(Self::new(text.to_owned()))
    }

    /// Takes a text that a database wants, whoever chose it, unless it cannot be
    /// meant. One line break at its end is passed over.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn password(text: &str) -> Result<Self, SecretError> {
        let text = text.strip_suffix('\n').unwrap_or(text);
        let text = text.strip_suffix('\r').unwrap_or(text);
        if text.trim().is_empty() {
            return Err(SecretError::Empty);
        }
        if is_placeholder(text) {
            return Err(SecretError::Placeholder);
        }
        if text.contains(char::is_control) {
            return Err(SecretError::Character);
        }
        if text.chars().count() < SHORTEST_PASSWORD {
            return Err(SecretError::ShortPassword);
        }
        Ok(Self::new(text.to_owned()))
    }

    /// The text itself, for the one who needs it.
    pub fn expose(&self) -> &str {
        &self.0
    }
}

fn judge(text: &str) -> Result<(), SecretError> {
    if text.trim().is_empty() {
        return Err(SecretError::Empty);
    }
    if is_placeholder(text) {
        return Err(SecretError::Placeholder);
    }
    if text.contains(char::is_whitespace) {
        return Err(SecretError::WhiteSpace);
    }
    if !text.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err(SecretError::Character);
    }
    if text.len() < SHORTEST {
        return Err(SecretError::Short);
    }
    if text.len() > LONGEST {
        return Err(SecretError::Long);
    }
    let mut different = text.as_bytes().to_vec();
    different.sort_unstable();
    different.dedup();
    let count = different.len();
    zeroize::Zeroize::zeroize(&mut different);
    if count < VARIED {
        return Err(SecretError::Monotonous);
    }
    if repeats(text.as_bytes()) {
        return Err(SecretError::Repeated);
    }
    Ok(())
}

fn is_placeholder(text: &str) -> bool {
    let lower = Zeroizing::new(text.trim().to_lowercase());
    let left_behind =
        |(start, end): &(&str, &str)| lower.starts_with(start) && lower.ends_with(end);
    PLACEHOLDERS.iter().any(|word| lower.contains(word))
        || TEMPLATES.iter().any(left_behind)
        || lower.chars().all(|c| c == 'x' || !c.is_alphanumeric())
}

/// Whether it is a shorter text written at least twice.
fn repeats(bytes: &[u8]) -> bool {
    (1..=bytes.len() / 2).any(|period| {
        let again = bytes.get(period..).unwrap_or_default();
        bytes.iter().zip(again).all(|(one, other)| one == other)
    })
}

/// In constant time for texts of one length.
impl PartialEq for Secret {
    fn eq(&self, other: &Self) -> bool {
        self.expose()
            .as_bytes()
            .ct_eq(other.expose().as_bytes())
            .into()
    }
}

impl Eq for Secret {}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const GOOD: &str = "b0c1a7f9d2e84c6b9f31a5d07e628c4e";

    #[test]
    fn what_is_no_secret_is_refused_with_the_reason() {
        use SecretError::*;
        for (text, error) in [
            ("", Empty),
            ("\n", Empty),
            ("  ", Empty),
            ("changeme", Placeholder),
            ("CHANGE-ME", Placeholder),
            ("My-Secret-0123456789-abcdefghijklmnop", Placeholder),
            ("Password1", Placeholder),
            ("this-is-an-Example-4f2a9c81b7d3e650", Placeholder),
            ("XXXX-XXXX", Placeholder),
            ("<broker key>", Placeholder),
            ("${SESSIONGUARD_BROKER_API_KEY}", Placeholder),
            ("{{ .Values.brokerKey }}", Placeholder),
            ("b0c1a7f9d2e84c6b 9f31a5d07e628c4e", WhiteSpace),
            (" b0c1a7f9d2e84c6b9f31a5d07e628c4e", WhiteSpace),
            ("b0c1a7f9d2e84c6b9f31a5d07e628c4e\n\n", WhiteSpace),
            ("b0c1a7f9d2e84c6b9f31a5d07e628c4ü", Character),
            ("b0c1a7f9d2e84c6b9f31a5d07e628c4", Short),
            ("0101010101010101010101010101010123", Monotonous),
            ("0123456789abcdef0123456789abcdef", Repeated),
        ] {
            assert_eq!(Secret::chosen(text).unwrap_err(), error, "{text:?}");
            assert!(!error.help().is_empty());
        }
        let long = GOOD.repeat(17);
        assert_eq!(Secret::chosen(&long).unwrap_err(), Long);
    }

    #[test]
    fn a_password_may_be_anything_that_is_one() {
        use SecretError::*;
        for (text, error) in [
            ("\n", Empty),
            ("sessionguard-password", Placeholder),
            ("${DATABASE_PASSWORD}", Placeholder),
            ("one\ntwo-three-four", Character),
            ("short-words", ShortPassword),
        ] {
            assert_eq!(Secret::password(text).unwrap_err(), error, "{text:?}");
        }
        let taken = Secret::password("mit Leerzeichen ü%20\n").unwrap();
        assert_eq!(taken.expose(), "mit Leerzeichen ü%20");
    }

    #[test]
    fn a_line_break_at_the_end_is_no_part_of_it() {
        for end in ["", "\n", "\r\n"] {
            let secret = Secret::chosen(&format!("{GOOD}{end}")).unwrap();
            assert_eq!(secret.expose(), GOOD);
        }
    }

    #[test]
    fn nothing_of_it_is_printed() {
        assert_eq!(
            format!(
                "{:?} {:#?}",
                Secret::new(GOOD.into()),
                Secret::new("a".into())
            ),
            "Secret Secret"
        );
    }

    proptest! {
        /// Whatever `openssl rand -hex 32` or `-base64 32` may say is taken.
        #[test]
        fn random_secrets_are_good(bytes in prop::array::uniform32(any::<u8>())) {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02x}")).collect();
            // Bytes that are no random ones are made by the shrinking, too.
            let varied = hex.chars().collect::<std::collections::BTreeSet<_>>().len();
            prop_assume!(varied >= VARIED && !repeats(hex.as_bytes()));
            prop_assert!(Secret::chosen(&hex).is_ok());
        }

        #[test]
        fn two_are_equal_where_their_texts_are(a in "[a-c]{0,3}", b in "[a-c]{0,3}") {
            prop_assert_eq!(Secret::new(a.clone()) == Secret::new(b.clone()), a == b);
        }
    }
}
