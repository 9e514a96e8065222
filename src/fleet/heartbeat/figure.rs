//! A figure of load: a number, or unknown.

use std::fmt;

use serde::de::{Deserialize, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

/// A number that an agent may have got wrong: anything but a finite number is
/// unknown, and no reason to refuse what else it says.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Figure(pub Option<f64>);

impl Figure {
    /// As a share of a hundred.
    pub fn percent(self) -> Option<f64> {
        self.0.map(|figure| figure.clamp(0.0, 100.0))
    }
}

struct Lenient;

impl<'de> Visitor<'de> for Lenient {
    type Value = Figure;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a number")
    }

    fn visit_f64<E>(self, figure: f64) -> Result<Figure, E> {
        Ok(Figure(figure.is_finite().then_some(figure)))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a figure of load needs no last digit"
    )]
    fn visit_u64<E>(self, figure: u64) -> Result<Figure, E> {
        Ok(Figure(Some(figure as f64)))
    }

    #[expect(
        clippy::cast_precision_loss,
        reason = "a figure of load needs no last digit"
    )]
    fn visit_i64<E>(self, figure: i64) -> Result<Figure, E> {
        Ok(Figure(Some(figure as f64)))
    }

    fn visit_unit<E>(self) -> Result<Figure, E> {
        Ok(Figure(None))
    }

    fn visit_bool<E>(self, _: bool) -> Result<Figure, E> {
        Ok(Figure(None))
    }

    fn visit_str<E>(self, _: &str) -> Result<Figure, E> {
        Ok(Figure(None))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Figure, A::Error> {
        while seq.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Figure(None))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Figure, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Figure(None))
    }
}

impl<'de> Deserialize<'de> for Figure {
    fn deserialize<D: Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
        from.deserialize_any(Lenient)
    }
}
