//! Chance with a seed.

/// Small, seeded, the same everywhere (xorshift64*).
pub struct Random(u64);

impl Random {
    /// `seed` is not 0.
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    pub fn below(&mut self, end: usize) -> usize {
        usize::try_from(self.next() >> 33).unwrap_or(0) % end.max(1)
    }

    pub fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }
}
