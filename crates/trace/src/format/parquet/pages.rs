//! Checks of a column's pages before the library trusts them: it allocates as many values as a dictionary claims to
//! hold.

use ::parquet::basic::Type;
use ::parquet::column::page::{Page, PageMetadata, PageReader};
use ::parquet::errors::{ParquetError, Result};

/// Pages of which none claims more values than it can hold.
pub struct Checked {
    pages: Box<dyn PageReader>,
    /// The least size of a value in bytes.
    least: usize,
}

impl Checked {
    /// Pages of values of this type.
    pub fn new(pages: Box<dyn PageReader>, kind: Type) -> Checked {
        let least = match kind {
            Type::INT64 | Type::DOUBLE => 8,
            // A text is preceded by its length.
            _ => 4,
        };
        Checked { pages, least }
    }
}

impl PageReader for Checked {
    fn get_next_page(&mut self) -> Result<Option<Page>> {
        let page = self.pages.get_next_page()?;
        if let Some(Page::DictionaryPage { buf, num_values, .. }) = &page {
            let most = buf.len() / self.least;
            if *num_values as usize > most {
                let found = format!("a dictionary of {num_values} values in {} bytes", buf.len());
                return Err(ParquetError::General(found));
            }
        }
        Ok(page)
    }

    fn peek_next_page(&mut self) -> Result<Option<PageMetadata>> {
        self.pages.peek_next_page()
    }

    fn skip_next_page(&mut self) -> Result<()> {
        self.pages.skip_next_page()
    }
}

impl Iterator for Checked {
    type Item = Result<Page>;

    fn next(&mut self) -> Option<Result<Page>> {
        self.get_next_page().transpose()
    }
}
