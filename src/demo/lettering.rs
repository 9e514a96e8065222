//! Letters out of rectangles, three dots wide and five high: enough for the
//! stand-in guacd to write on its picture what it is.

/// Side of a dot, pixels.
const DOT: u16 = 6;
/// From one letter to the next, dots.
const ADVANCE: u16 = 4;

/// From one line to the next, pixels.
pub(super) const LINE: u16 = 8 * DOT;

/// A filled rectangle: x, y, width, height in pixels.
pub(super) type Rect = [u16; 4];

/// A row of dots an octal digit, the top one first.
const GLYPHS: [(char, u16); 43] = [
    ('A', 0o2_5755),
    ('B', 0o6_5656),
    ('C', 0o3_4443),
    ('D', 0o6_5556),
    ('E', 0o7_4647),
    ('F', 0o7_4644),
    ('G', 0o3_4553),
    ('H', 0o5_5755),
    ('I', 0o7_2227),
    ('J', 0o1_1152),
    ('K', 0o5_5655),
    ('L', 0o4_4447),
    ('M', 0o5_7755),
    ('N', 0o6_5555),
    ('O', 0o2_5552),
    ('P', 0o6_5644),
    ('Q', 0o2_5563),
    ('R', 0o6_5655),
    ('S', 0o3_4216),
    ('T', 0o7_2222),
    ('U', 0o5_5557),
    ('V', 0o5_5552),
    ('W', 0o5_5775),
    ('X', 0o5_5255),
    ('Y', 0o5_5222),
    ('Z', 0o7_1247),
    ('0', 0o7_5557),
    ('1', 0o2_6227),
    ('2', 0o6_1247),
    ('3', 0o6_1216),
    ('4', 0o5_5711),
    ('5', 0o7_4616),
    ('6', 0o3_4757),
    ('7', 0o7_1122),
    ('8', 0o7_5757),
    ('9', 0o7_5716),
    ('.', 0o0_0002),
    (':', 0o0_2020),
    ('-', 0o0_0700),
    ('_', 0o0_0007),
    ('|', 0o2_2222),
    ('\'', 0o2_2000),
    (' ', 0),
];

/// The rectangles of a text whose upper left corner is here, as far as it fits
/// into `width` pixels. What has no letter here leaves a gap.
pub(super) fn letters(text: &str, x: u16, y: u16, width: u16) -> Vec<Rect> {
    let fit = usize::from(width / (ADVANCE * DOT));
    let columns = (0..).map(|n: u16| x + n * ADVANCE * DOT);
    let placed = text.chars().take(fit).zip(columns);
    placed
        .flat_map(|(letter, x)| dots(letter.to_ascii_uppercase(), x, y))
        .collect()
}

fn dots(letter: char, x: u16, y: u16) -> Vec<Rect> {
    let found = GLYPHS.iter().find(|(known, _)| *known == letter);
    let glyph = found.map_or(0, |(_, glyph)| *glyph);
    let mut rects = Vec::new();
    for row in 0..5_u16 {
        for column in 0..3_u16 {
            // The last row is the last octal digit.
            let bit = (4 - row) * 3 + (2 - column);
            if glyph >> bit & 1 == 1 {
                rects.push([x + column * DOT, y + row * DOT, DOT, DOT]);
            }
        }
    }
    rects
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The dots as they are seen.
    fn drawn(text: &str) -> String {
        let rects = letters(text, 0, 0, 1000);
        let lit = |column: u16, row: u16| rects.contains(&[column * DOT, row * DOT, DOT, DOT]);
        let rows = (0..5).map(|row| {
            let row: String = (0..7)
                .map(|c| if lit(c, row) { '#' } else { ' ' })
                .collect();
            row.trim_end().to_owned()
        });
        rows.collect::<Vec<_>>().join("\n")
    }

    #[test]
    fn letters_look_like_letters() {
        assert_eq!(drawn("Lt"), "#   ###\n#    #\n#    #\n#    #\n###  #");
    }

    #[test]
    fn what_does_not_fit_is_cut_off() {
        let widest = letters(&"w".repeat(100), 10, 0, 100).into_iter();
        let right = widest.map(|[x, _, width, _]| x + width).max().unwrap();
        assert!(right <= 110, "{right}");
    }
}
