//! Legends of pictures: as a list next to it on the page, as text within it in a file of its own.

use std::fmt::Write;

use super::text::escape;

/// Size of a mark, in a picture's units.
const MARK: (f64, f64) = (32.0, 14.0);
/// Approximate width of a letter in a picture, and height of a row of marks.
const LETTER: f64 = 7.8;
const ROW: f64 = 22.0;

/// Marks with their meanings.
#[derive(Default)]
pub struct Legend(Vec<(String, String)>);

impl Legend {
    /// Adds a mark: `mark` is SVG in a box of 32 by 14, `name` is plain text.
    pub fn add(&mut self, mark: String, name: &str) {
        self.0.push((mark, name.to_owned()));
    }

    /// Number of marks.
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// HTML for the page.
    pub fn html(&self) -> String {
        let mut out = String::from("<ul class=\"legend\">");
        for (mark, name) in &self.0 {
            let (width, height) = MARK;
            let _ = write!(
                out,
                "<li><svg class=\"key\" viewBox=\"0 0 {width} {height}\" aria-hidden=\"true\">{mark}</svg>{}</li>",
                escape(name)
            );
        }
        out.push_str("</ul>");
        out
    }

    /// SVG for a picture of this width, in rows from `top` down; and where they end.
    pub fn svg(&self, width: f64, top: f64) -> (String, f64) {
        let (mut out, mut x, mut y) = (String::new(), 0.0, top);
        for (mark, name) in &self.0 {
            let wide = MARK.0 + 8.0 + name.chars().count() as f64 * LETTER + 14.0;
            if x > 0.0 && x + wide > width {
                (x, y) = (0.0, y + ROW);
            }
            let _ = write!(
                out,
                "<g transform=\"translate({x:.0} {y:.0})\">{mark}<text x=\"{}\" y=\"12\">{}</text></g>",
                MARK.0 + 7.0,
                escape(name)
            );
            x += wide;
        }
        let end = if self.0.is_empty() { top } else { y + ROW };
        (out, end)
    }
}
