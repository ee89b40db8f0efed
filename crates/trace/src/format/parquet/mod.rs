//! Parquet, as written by this project and by data-frame programs: a row per request, columns identified by their names
//! in any order, others ignored.
//!
//! Units: nanoseconds, sectors of 512 bytes (see `schema`). `time_ns`, `op`, and `sector` and `sectors` are required,
//! or instead of the last two `offset` and `size` in bytes, as the Python package has them; other missing or null
//! values are unknown. Volumes have their numbers if the file gives their naming, else the names in
//! `volume`. Pages may be plain, zstd or Snappy.
//!
//! Bounds: a batch of rows and a page per column, whatever the size of a row group. A file is read in place; standard
//! input and compressed files go through a temporary file. Faults: any bytes. The library panics on some of those; that
//! ends the trace with an error like any other. Pages have no checksum: damage inside of one may go unnoticed.

mod batch;
mod column;
mod guard;
mod pages;
pub(crate) mod schema;
mod source;

use std::path::{Path, PathBuf};

use ::parquet::basic::Compression;
use ::parquet::errors::ParquetError;
use ::parquet::file::metadata::{ParquetMetaData, RowGroupMetaData};
use ::parquet::file::reader::{FileReader, Length, SerializedFileReader};

use super::fields::{Flaw, quoted};
use super::text::EventQueue;
use super::{Content, Decoder, Event, Format, Naming, OpenUnits, Sample};
use crate::error::TraceError;
use crate::volumes::Volumes;
use batch::Batch;
use column::Column;
use guard::guarded;
use source::Source;

/// The entry in the table of formats.
pub const FORMAT: Format = Format {
    name: "parquet",
    summary: "Parquet with columns time_ns, op, sector, sectors, and others as trace convert writes them",
    sample: Sample::Real,
    volumes: Naming::Named,
    open_units: OpenUnits::NONE,
    detect: |head| head.starts_with(MAGIC),
    open,
};

const MAGIC: &[u8; 4] = b"PAR1";
/// Rows per batch.
const BATCH: usize = 8192;
/// Most columns named in a message.
const MAX_LISTED: usize = 20;

struct Parquet {
    input: SerializedFileReader<Source>,
    file: PathBuf,
    events: EventQueue,
    /// The columns read: number in `batch`, and number in the file.
    selected: Vec<(usize, usize)>,
    volumes: Volumes,
    /// Whether volumes are identified by the numbers in `device`.
    numbered: bool,
    /// The row group being read: its columns, and rows still to come.
    group: Vec<Column>,
    left: usize,
    groups_begun: usize,
    batch: Batch,
    /// The next row of the batch, its size, and the number of its first row in the file.
    next: usize,
    rows: usize,
    first: u64,
    skip_bad: bool,
    skipped: u64,
}

fn open(mut content: Content) -> Result<Box<dyn Decoder>, TraceError> {
    let file = content.file;
    let io = |source| TraceError::Io { file: file.clone(), source };
    let on_disk = content.on_disk.then_some(file.as_path());
    let source = Source::open(on_disk, &mut content.input).map_err(io)?;
    let bytes = source.len();
    let opened = guarded(|| SerializedFileReader::new(source));
    let input = opened.map_err(|error| damaged(&file, 0, error, "a whole Parquet file"))?;
    let malformed = |Flaw { found, expected }| {
        let file = file.clone();
        TraceError::Malformed { file, offset: 0, found, expected }
    };
    let selected = selected(input.metadata()).map_err(malformed)?;
    check(input.metadata(), bytes).map_err(malformed)?;
    let has = |field| selected.iter().any(|(known, _)| *known == field);
    let naming = match naming(input.metadata()) {
        Some(naming) if naming == Naming::Named || has(batch::DEVICE) => naming,
        _ if has(batch::VOLUME) => Naming::Named,
        _ => Naming::Numbered,
    };
    content.volumes.set_naming(naming).map_err(|before| {
        let found = format!("volumes that are {}", words(naming));
        malformed(Flaw { found, expected: format!("{}, as in the files before it", words(before)) })
    })?;
    Ok(Box::new(Parquet {
        input,
        file,
        events: EventQueue::default(),
        selected,
        volumes: content.volumes,
        numbered: naming != Naming::Named,
        group: Vec::new(),
        left: 0,
        groups_begun: 0,
        batch: Batch::default(),
        next: 0,
        rows: 0,
        first: 0,
        skip_bad: content.options.skip_bad,
        skipped: 0,
    }))
}

/// The columns of the file to read.
fn selected(metadata: &ParquetMetaData) -> Result<Vec<(usize, usize)>, Flaw> {
    let columns = metadata.file_metadata().schema_descr().columns();
    let listed = || {
        let names = columns.iter().take(MAX_LISTED).map(|column| quoted(&column.path().string()));
        format!("the columns {}", names.collect::<Vec<_>>().join(", "))
    };
    let mut selected = Vec::new();
    for field in 0..batch::FIELDS {
        let (name, kind, needed) = batch::field(field);
        let found = columns.iter().position(|column| column.path().parts() == [name]);
        let Some(number) = found else {
            if needed {
                return Err(Flaw { found: listed(), expected: format!("one called {name}") });
            }
            continue;
        };
        kind.suits(&columns[number]).map_err(|found| Flaw {
            found: format!("column {name} of type {found}"),
            expected: kind.words().to_owned(),
        })?;
        selected.push((field, number));
    }
    let has = |field: usize| selected.iter().any(|(known, _)| *known == field);
    if !batch::PLACES.iter().any(|place| place.iter().all(|field| has(*field))) {
        let [[sector, sectors], [offset, size]] =
            batch::PLACES.map(|place| place.map(|field| batch::field(field).0));
        let missing = if has(batch::PLACES[0][0]) { sectors } else { sector };
        let expected = format!("one called {missing}, or both {offset} and {size}, in bytes");
        return Err(Flaw { found: listed(), expected });
    }
    Ok(selected)
}

/// Checks that all columns lie in the file's `bytes`, which the library does not check, and can be decompressed.
fn check(metadata: &ParquetMetaData, bytes: u64) -> Result<(), Flaw> {
    for column in metadata.row_groups().iter().flat_map(RowGroupMetaData::columns) {
        let (data, length) = (column.data_page_offset(), column.compressed_size());
        let first = column.dictionary_page_offset().unwrap_or(data).min(data);
        let path = quoted(&column.column_path().string());
        let signs = first >= 0 && length >= 0 && column.num_values() >= 0;
        if !signs || first.checked_add(length).is_none_or(|end| end as u64 > bytes) {
            let found = format!("column {path} of {length} bytes at byte {first}");
            return Err(Flaw { found, expected: format!("a place within {bytes} bytes") });
        }
        let codec = column.compression();
        if !matches!(codec, Compression::UNCOMPRESSED | Compression::SNAPPY | Compression::ZSTD(_)) {
            let found = format!("column {path} compressed by {codec}");
            return Err(Flaw { found, expected: "ZSTD, SNAPPY or UNCOMPRESSED".to_owned() });
        }
    }
    Ok(())
}

/// The naming of volumes given by the file.
fn naming(metadata: &ParquetMetaData) -> Option<Naming> {
    let events = metadata.file_metadata().key_value_metadata()?;
    let events = events.iter().find(|pair| pair.key == schema::VOLUMES)?.value.as_deref()?;
    schema::NAMINGS.iter().find(|(word, _)| *word == events).map(|(_, naming)| *naming)
}

fn words(naming: Naming) -> &'static str {
    schema::NAMINGS.iter().find(|(_, known)| *known == naming).map_or("", |(word, _)| word)
}

fn damaged(file: &Path, offset: u64, error: ParquetError, expected: &str) -> TraceError {
    let found = match error {
        ParquetError::External(cause) => match cause.downcast::<std::io::Error>() {
            Ok(source) if source.raw_os_error().is_some() => {
                return TraceError::Io { file: file.to_owned(), source: *source };
            }
            // An error of a decompressor.
            Ok(cause) => cause.to_string(),
            Err(cause) => cause.to_string(),
        },
        ParquetError::General(events) | ParquetError::NYI(events) | ParquetError::EOF(events) => events,
        error => error.to_string(),
    };
    // A quotation may be of any length, and control a terminal.
    let found = quoted(&found).trim_matches('"').to_owned();
    TraceError::Malformed { file: file.to_owned(), offset, found, expected: expected.to_owned() }
}

impl Parquet {
    /// Reads the next batch of rows; `false` at the end.
    fn fetch(&mut self) -> Result<bool, TraceError> {
        while self.left == 0 {
            if self.groups_begun == self.input.num_row_groups() {
                return Ok(false);
            }
            self.begin()?;
        }
        self.first += self.rows as u64;
        (self.next, self.rows) = (0, self.left.min(BATCH));
        self.left -= self.rows;
        for ((field, number), column) in self.selected.iter().zip(&mut self.group) {
            let rows = self.rows;
            let values = guarded(|| column.read(rows));
            let group = self.input.metadata().row_group(self.groups_begun - 1).column(*number);
            let offset = group.dictionary_page_offset().unwrap_or(group.data_page_offset());
            let expected = format!("pages of {rows} more values of column {}", batch::field(*field).0);
            let values =
                values.map_err(|error| damaged(&self.file, offset.max(0) as u64, error, &expected))?;
            self.batch.columns[*field] = Some(values);
        }
        Ok(true)
    }

    /// Starts the next row group.
    fn begin(&mut self) -> Result<(), TraceError> {
        let (input, number, selected) = (&self.input, self.groups_begun, &self.selected);
        let opened = guarded(|| {
            let group = input.get_row_group(number)?;
            let columns = selected.iter().map(|(_, column)| Column::open(&*group, *column));
            let rows = usize::try_from(group.metadata().num_rows());
            let rows = rows.map_err(|_| ParquetError::General("a negative number of rows".into()))?;
            Ok((rows, columns.collect::<Result<Vec<_>, _>>()?))
        });
        let expected = format!("row group {number}");
        (self.left, self.group) = opened.map_err(|error| damaged(&self.file, 0, error, &expected))?;
        self.groups_begun += 1;
        Ok(())
    }
}

impl Decoder for Parquet {
    fn next_event(&mut self) -> Result<Option<Event>, TraceError> {
        loop {
            if let Some((time, kind)) = self.events.next() {
                return Ok(Some(Event { time, offset: 0, kind }));
            }
            if self.next == self.rows && !self.fetch()? {
                return Ok(None);
            }
            let row = self.next;
            self.next += 1;
            match self.batch.row(row, &mut self.events, &self.volumes, self.numbered) {
                Err(_) if self.skip_bad => self.skipped += 1,
                Err((field, Flaw { found, expected })) => {
                    // From one, as lines are.
                    let (file, row) = (self.file.clone(), self.first + row as u64 + 1);
                    let column = batch::field(field).0;
                    return Err(TraceError::Row { file, row, column, found, expected });
                }
                Ok(()) => {}
            }
        }
    }

    fn warnings(&mut self) -> Vec<String> {
        self.events.warnings(&self.file)
    }

    fn skipped(&self) -> u64 {
        self.skipped
    }

    fn clamps(&self) -> bool {
        true
    }
}
