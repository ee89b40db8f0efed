//! One column of a row group, a batch of rows at a time, for any of Parquet's types of values.
//!
//! Invariant: a batch has exactly the requested number of rows, or is an error. Faults: any bytes; a column of another
//! type than the trace needs, of lists, or shorter than its row group.

use ::parquet::basic::{LogicalType, Type};
use ::parquet::column::reader::{ColumnReader, ColumnReaderImpl, get_column_reader};
use ::parquet::data_type::{BoolType, ByteArray, ByteArrayType, DataType, DoubleType, Int32Type, Int64Type};
use ::parquet::errors::{ParquetError, Result};
use ::parquet::file::reader::RowGroupReader;
use ::parquet::schema::types::ColumnDescriptor;

use super::pages::Checked;

/// The kind of a trace column's values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Whole numbers; of floating-point numbers, their whole part.
    Number,
    /// Words.
    Text,
    /// Booleans.
    Bit,
}

impl Kind {
    /// Whether a column of a file can be read as this kind; else, its type.
    pub fn suits(self, column: &ColumnDescriptor) -> std::result::Result<(), String> {
        let (is, lists) = (column.physical_type(), column.max_rep_level() > 0);
        let suits = match self {
            Kind::Number => matches!(is, Type::INT32 | Type::INT64 | Type::DOUBLE),
            Kind::Text => is == Type::BYTE_ARRAY,
            Kind::Bit => is == Type::BOOLEAN,
        };
        if suits && !lists { Ok(()) } else { Err(format!("{is}{}", if lists { " in lists" } else { "" })) }
    }

    /// A description.
    pub fn words(self) -> &'static str {
        match self {
            Kind::Number => "whole numbers (INT32, INT64 or DOUBLE)",
            Kind::Text => "text (BYTE_ARRAY)",
            Kind::Bit => "BOOLEAN",
        }
    }
}

/// The values of a batch of rows; `None` is null.
#[derive(Debug)]
pub enum Values {
    /// Of [`Kind::Number`].
    Numbers(Vec<Option<i64>>),
    /// Of [`Kind::Text`].
    Texts(Vec<Option<ByteArray>>),
    /// Of [`Kind::Bit`].
    Bits(Vec<Option<bool>>),
}

/// A reader of a row group's column.
pub enum Column {
    /// Numbers in 32 bits; whether unsigned.
    Int32(Typed<Int32Type>, bool),
    /// Numbers in 64 bits.
    Int64(Typed<Int64Type>),
    /// Floating-point numbers.
    Double(Typed<DoubleType>),
    /// Words.
    Text(Typed<ByteArrayType>),
    /// Booleans.
    Bit(Typed<BoolType>),
}

impl Column {
    /// The column of this number.
    pub fn open(group: &dyn RowGroupReader, number: usize) -> Result<Column> {
        let described = group.metadata().schema_descr().column(number);
        let nullable = described.max_def_level();
        let unsigned =
            matches!(described.logical_type_ref(), Some(LogicalType::Integer(int)) if !int.is_signed);
        let pages = Checked::new(group.get_column_page_reader(number)?, described.physical_type());
        Ok(match get_column_reader(described, Box::new(pages)) {
            ColumnReader::Int32ColumnReader(reader) => Column::Int32(Typed::new(reader, nullable), unsigned),
            ColumnReader::Int64ColumnReader(reader) => Column::Int64(Typed::new(reader, nullable)),
            ColumnReader::DoubleColumnReader(reader) => Column::Double(Typed::new(reader, nullable)),
            ColumnReader::ByteArrayColumnReader(reader) => Column::Text(Typed::new(reader, nullable)),
            ColumnReader::BoolColumnReader(reader) => Column::Bit(Typed::new(reader, nullable)),
            _ => return Err(ParquetError::NYI("a column of another type".into())),
        })
    }

    /// The values of the next `rows` rows.
    pub fn read(&mut self, rows: usize) -> Result<Values> {
        Ok(match self {
            Column::Int32(typed, true) => Values::Numbers(typed.read(rows, |one| i64::from(one as u32))?),
            Column::Int32(typed, false) => Values::Numbers(typed.read(rows, i64::from)?),
            Column::Int64(typed) => Values::Numbers(typed.read(rows, |one| one)?),
            Column::Double(typed) => {
                let numbers = typed.read(rows, |one| (!one.is_nan()).then_some(one as i64))?;
                Values::Numbers(numbers.into_iter().map(Option::flatten).collect())
            }
            Column::Text(typed) => Values::Texts(typed.read(rows, |one| one)?),
            Column::Bit(typed) => Values::Bits(typed.read(rows, |one| one)?),
        })
    }
}

/// A column of a known type.
pub struct Typed<T: DataType> {
    reader: ColumnReaderImpl<T>,
    /// The definition level of a value that is not null; zero if nulls are not possible.
    present: i16,
    values: Vec<T::T>,
    levels: Vec<i16>,
}

impl<T: DataType> Typed<T> {
    fn new(reader: ColumnReaderImpl<T>, present: i16) -> Typed<T> {
        Typed { reader, present, values: Vec::new(), levels: Vec::new() }
    }

    fn read<V>(&mut self, rows: usize, value: impl Fn(T::T) -> V) -> Result<Vec<Option<V>>> {
        let Typed { reader, present, values, levels } = self;
        values.clear();
        levels.clear();
        let (records, ..) = reader.read_records(rows, Some(levels), None, values)?;
        let mut given = values.drain(..).map(value);
        let read: Vec<Option<V>> = if *present == 0 {
            given.by_ref().map(Some).collect()
        } else {
            levels.iter().map(|level| if level == present { given.next() } else { None }).collect()
        };
        if records == rows && read.len() == rows {
            return Ok(read);
        }
        Err(ParquetError::EOF(format!("{} of {rows} values", read.len())))
    }
}
