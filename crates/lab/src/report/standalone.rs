//! A figure as an SVG file of its own: title, legend and all its pictures, text as text, in light or dark mode as the
//! reader prefers. It is self-contained, and viewers without CSS variables can show it too.

use std::fmt::Write;

use super::figure::Figure;
use super::page::{PALETTE, PATTERNS, PICTURE};
use super::text::escape;

/// Width of a picture, and the margin around it, in its own units.
const WIDTH: f64 = 520.0;
const MARGIN: f64 = 12.0;
/// Space between two pictures.
const GAP: f64 = 28.0;

/// The figure as the text of an SVG file.
pub fn svg(figure: &Figure) -> String {
    let mut body = String::new();
    let columns = if figure.wide { 1 } else { figure.panels.len().clamp(1, 2) };
    let scale = if figure.wide { 2.0 } else { 1.0 };
    let (each, inside) = (WIDTH * scale, WIDTH * scale * columns as f64 + GAP * (columns - 1) as f64);
    let _ = write!(body, "<text class=\"title\" x=\"0\" y=\"16\">{}</text>", escape(&figure.title));
    let (legend, mut bottom) = figure.legend.svg(inside, 28.0);
    body.push_str(&legend);
    bottom += 8.0;
    for row in figure.panels.chunks(columns) {
        let mut lowest = bottom;
        for (column, panel) in row.iter().enumerate() {
            let left = column as f64 * (each + GAP);
            let mut top = bottom;
            if !panel.name.is_empty() {
                top += 18.0;
                let _ = write!(
                    body,
                    "<text class=\"name\" x=\"{left}\" y=\"{top}\">{}</text>",
                    escape(&panel.name)
                );
                top += 8.0;
            }
            if let Some((width, height)) = view_box(&panel.svg) {
                let high = each * height / width;
                let _ = write!(body, "<g transform=\"translate({left} {top:.1})\">");
                let size = format!("<svg width=\"{each}\" height=\"{high:.1}\" ");
                body.push_str(&panel.svg.replacen("<svg ", &size, 1));
                body.push_str("</g>");
                top += high;
            }
            if !panel.note.is_empty() {
                top += 18.0;
                let _ = write!(body, "<text x=\"{left}\" y=\"{top:.1}\">{}</text>", escape(&panel.note));
                top += 6.0;
            }
            lowest = lowest.max(top);
        }
        bottom = lowest + 8.0;
    }
    let (width, height) = (inside + 2.0 * MARGIN, bottom + 2.0 * MARGIN);
    let says = escape(&format!("{}. {}", figure.title, figure.caption));
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" role=\"img\" aria-label=\"{says}\" width=\"{width:.0}\" height=\"{height:.0}\" \
         viewBox=\"0 0 {width:.0} {height:.0}\" font-family=\"system-ui, sans-serif\">\n<style>{}</style>\n{PATTERNS}\
         <rect class=\"paper\" width=\"{width:.0}\" height=\"{height:.0}\"/>\
         <g transform=\"translate({MARGIN} {MARGIN})\">{body}</g></svg>\n",
        style()
    )
}

/// Width and height of a picture.
fn view_box(svg: &str) -> Option<(f64, f64)> {
    let numbers = svg.split("viewBox=\"0 0 ").nth(1)?.split('"').next()?;
    let (width, height) = numbers.split_once(' ')?;
    Some((width.parse().ok()?, height.parse().ok()?))
}

/// The style of pictures with the colours filled in: light, then dark.
fn style() -> String {
    const OWN: &str = ".paper { fill: var(--paper); } svg .title { font-size: 17px; font-weight: 600; fill: var(--ink); } \
                       svg .name { font-weight: 600; fill: var(--ink); }\n";
    let (light, dark) = PALETTE.split_once("@media").unwrap_or((PALETTE, ""));
    let filled = |palette: &str| {
        let colours =
            palette.split(['{', ';']).filter_map(|each| each.trim().strip_prefix("--")?.split_once(": "));
        let fill =
            |css: String, (name, colour): (&str, &str)| css.replace(&format!("var(--{name})"), colour.trim());
        colours.fold(format!("{PICTURE}{OWN}"), fill)
    };
    format!("{}@media screen and (prefers-color-scheme: dark) {{\n{}}}\n", filled(light), filled(dark))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_colour_is_filled_in() {
        let css = style();
        assert!(!css.contains("var("), "{css}");
        assert!(css.contains("#0060a0") && css.contains("#66b5ee"));
        assert_eq!(css.matches('{').count(), css.matches('}').count());
    }

    #[test]
    fn a_picture_has_a_size() {
        assert_eq!(view_box("<svg role=\"img\" viewBox=\"0 0 520 300\" a>"), Some((520.0, 300.0)));
        assert_eq!(view_box("<svg>"), None);
    }
}
