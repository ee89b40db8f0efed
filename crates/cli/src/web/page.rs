//! The page: one file without names or figures in it, which its script gets from the stream.
//!
//! Its content security policy allows its own two scripts and its styles by a number that is used once, and a
//! connection to where it came from.

use seekless_lab::report::{PALETTE, STYLE, UPLOT_SCRIPT, UPLOT_STYLE};

const BODY: &str = include_str!("assets/web.html");
const LOOK: &str = include_str!("assets/web.css");
const CHARTS: &str = include_str!("assets/charts.js");
const HEAT: &str = include_str!("assets/heat.js");
const SCRIPT: &str = include_str!("assets/web.js");

/// The policy of a page with this number.
pub fn policy(nonce: &str) -> String {
    format!(
        "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; connect-src 'self'; img-src data:; \
         base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
}

/// The page with this number.
pub fn page(nonce: &str) -> String {
    let style = |text| format!("<style nonce=\"{nonce}\">{text}</style>\n");
    let script = |text| format!("<script nonce=\"{nonce}\">{text}</script>\n");
    let styles = [UPLOT_STYLE, PALETTE, STYLE, LOOK].map(style).concat();
    let scripts = [UPLOT_SCRIPT, CHARTS, HEAT, SCRIPT].map(script).concat();
    format!(
        "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<link rel=\"icon\" href=\"data:,\">\n\
         <title>seekless</title>\n{styles}</head>\n<body>{BODY}{scripts}</body></html>\n"
    )
}
