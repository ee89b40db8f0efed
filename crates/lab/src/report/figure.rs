//! A chart as it stands in the page: title, legend, picture, and its numbers in tables.

use super::table::Table;
use super::text::escape;

/// A chart with all that belongs to it. Legend and picture are HTML, the rest is plain text.
pub struct Figure<'a> {
    /// Its name in the page.
    pub id: &'a str,
    /// Above it.
    pub title: &'a str,
    /// What to see in it.
    pub caption: &'a str,
    /// What its marks mean.
    pub legend: String,
    /// The picture.
    pub svg: String,
    /// Its numbers; at least one table.
    pub tables: Vec<Table>,
}

impl Figure<'_> {
    /// The chart, with its tables folded away.
    pub fn html(&self) -> String {
        let (id, title, caption) = (self.id, escape(self.title), escape(self.caption));
        let mut out = format!(
            "<figure id=\"{id}\"><figcaption><h3>{title}</h3><p>{caption}</p></figcaption>{}<div class=\"plot\">{}</div>",
            self.legend, self.svg
        );
        out.push_str("<details><summary>The numbers</summary>");
        out.extend(self.tables.iter().map(Table::html));
        out.push_str("</details></figure>\n");
        out
    }
}
