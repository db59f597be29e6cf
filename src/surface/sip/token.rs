//! Tags, branches and session ids that nobody can guess, from a seed that is passed in.

use sha2::{Digest, Sha256};

/// The seed. Fresh randomness in production; a constant in tests gives the same messages byte for byte.
pub type Seed = [u8; 32];

/// Derives tokens from the seed.
#[derive(Debug)]
pub struct Tokens {
    seed: Seed,
    counter: u64,
}

impl Tokens {
    pub fn new(seed: Seed) -> Self {
        Self { seed, counter: 0 }
    }

    /// A token never given before: 64 bits, as hexadecimal (RFC 3261 section 19.3 asks for 32).
    pub fn fresh(&mut self) -> String {
        format!("{:016x}", self.number())
    }

    /// As [`Tokens::fresh`], as a number.
    pub fn number(&mut self) -> u64 {
        self.counter += 1;
        self.digest(b"fresh", &self.counter.to_be_bytes())
    }

    /// The token that belongs to `about`: a stateless answer repeats the tag that it gave before (section 8.2.7).
    pub fn fixed(&self, about: &[u8]) -> String {
        format!("{:016x}", self.digest(b"fixed", about))
    }

    fn digest(&self, kind: &[u8], about: &[u8]) -> u64 {
        let digest = Sha256::new().chain_update(self.seed).chain_update(kind).chain_update(about).finalize();
        digest.iter().take(8).fold(0, |number, &byte| number << 8 | u64::from(byte))
    }
}
