//! Reads an input piece by piece. One that has run out reads as zeros, so that
//! every input means something.

use arbitrary::Unstructured;

pub(super) struct Input<'a>(Unstructured<'a>);

impl<'a> Input<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Self {
        Self(Unstructured::new(bytes))
    }

    pub(super) fn is_over(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn byte(&mut self) -> u8 {
        self.0.arbitrary().unwrap()
    }

    /// Little-endian.
    pub(super) fn number(&mut self) -> usize {
        usize::from(self.0.arbitrary::<u16>().unwrap())
    }

    /// So many bytes, or as many as there are.
    pub(super) fn bytes(&mut self, count: usize) -> &'a [u8] {
        let count = count.min(self.0.len());
        self.0.bytes(count).unwrap()
    }

    pub(super) fn one_of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::from(self.byte()) % choices.len()]
    }

    /// A text whose length comes first; what is no UTF-8 in it is replaced.
    pub(super) fn text(&mut self) -> String {
        let length = usize::from(self.byte());
        String::from_utf8_lossy(self.bytes(length)).into_owned()
    }

    pub(super) fn rest(self) -> &'a [u8] {
        self.0.take_rest()
    }
}
