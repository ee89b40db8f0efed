//! The rows of a sweep as one data set: a row for each task, in the order of the tasks, in typed columns.
//!
//! First the task's identity, then the parameters, then its error and notes, then every figure of every run by name.
//! Parquet's columns are all nullable: whole numbers are INT64, other numbers DOUBLE, texts strings. The same rows give
//! the same bytes.

use std::collections::BTreeSet;

use super::row::{Figure, Row};
use super::task::Task;

/// A data set.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its columns, of equal lengths.
    pub columns: Vec<Column>,
}

/// A column.
#[derive(Clone, Debug, PartialEq)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Cells.
    pub cells: Vec<Option<Figure>>,
}

/// The data set of tasks with these parameters, and their rows.
pub fn table(parameters: &[String], tasks: &[Task], rows: &[Row]) -> Table {
    let text = |text: &String| Some(Figure::Text(text.clone()));
    let column = |name: &str, cells: Vec<Option<Figure>>| Column { name: name.to_owned(), cells };
    let mut columns = vec![column("task", rows.iter().map(|row| text(&row.identity)).collect())];
    for name in parameters {
        let cell =
            |task: &Task| task.settings.iter().find(|(key, _)| key == name).map(|(_, value)| value.clone());
        columns.push(column(name, tasks.iter().map(cell).collect()));
    }
    columns.push(column("error", rows.iter().map(|row| row.error.as_ref().and_then(text)).collect()));
    let notes = |row: &Row| Some(row.notes.join("\n")).filter(|notes| !notes.is_empty()).map(Figure::Text);
    columns.push(column("notes", rows.iter().map(notes).collect()));
    let names: BTreeSet<&String> = rows.iter().flat_map(|row| row.figures.keys()).collect();
    for name in names {
        columns.push(column(name, rows.iter().map(|row| row.figures.get(name).cloned()).collect()));
    }
    Table { columns }
}

#[cfg(feature = "parquet")]
mod parquet_file {
    use std::sync::Arc;

    use parquet::basic::{Compression, ConvertedType, LogicalType, Repetition, Type as Physical, ZstdLevel};
    use parquet::data_type::{ByteArray, ByteArrayType, DataType, DoubleType, Int64Type};
    use parquet::errors::ParquetError;
    use parquet::file::metadata::KeyValue;
    use parquet::file::properties::WriterProperties;
    use parquet::file::writer::{SerializedFileWriter, SerializedRowGroupWriter};
    use parquet::schema::types::Type;

    use super::{Column, Figure, Table};

    type Group<'a> = SerializedRowGroupWriter<'a, Vec<u8>>;

    impl Table {
        /// The bytes of a Parquet file; `program` is recorded in its metadata.
        ///
        /// # Errors
        /// Those of the library, for names that Parquet cannot represent.
        pub fn parquet(&self, program: &str) -> Result<Vec<u8>, ParquetError> {
            let fields = self.columns.iter().map(|column| column.field().map(Arc::new));
            let schema =
                Type::group_type_builder("sweep").with_fields(fields.collect::<Result<_, _>>()?).build()?;
            let metadata = KeyValue::new("seekless.program".to_owned(), program.to_owned());
            let properties = WriterProperties::builder()
                .set_compression(Compression::ZSTD(ZstdLevel::default()))
                .set_key_value_metadata(Some(vec![metadata]));
            let mut file =
                SerializedFileWriter::new(Vec::new(), Arc::new(schema), Arc::new(properties.build()))?;
            let mut group = file.next_row_group()?;
            for column in &self.columns {
                column.write(&mut group)?;
            }
            group.close()?;
            file.into_inner()
        }
    }

    impl Column {
        /// Whole numbers if all cells are, texts if one is or there is none, otherwise numbers.
        fn physical(&self) -> Physical {
            let mut cells = self.cells.iter().flatten().peekable();
            if cells.peek().is_none() || cells.clone().any(|cell| matches!(cell, Figure::Text(_))) {
                return Physical::BYTE_ARRAY;
            }
            let whole = cells.all(|cell| matches!(cell, Figure::Whole(_)));
            if whole { Physical::INT64 } else { Physical::DOUBLE }
        }

        fn field(&self) -> Result<Type, ParquetError> {
            let physical = self.physical();
            let field =
                Type::primitive_type_builder(&self.name, physical).with_repetition(Repetition::OPTIONAL);
            if physical == Physical::BYTE_ARRAY {
                let text = field.with_logical_type(Some(LogicalType::String));
                return text.with_converted_type(ConvertedType::UTF8).build();
            }
            field.build()
        }

        fn write(&self, group: &mut Group) -> Result<(), ParquetError> {
            let cells = self.cells.iter().flatten();
            match self.physical() {
                Physical::INT64 => {
                    let whole = |cell: &Figure| if let Figure::Whole(number) = cell { *number } else { 0 };
                    self.values::<Int64Type>(group, &cells.map(whole).collect::<Vec<_>>())
                }
                Physical::DOUBLE => {
                    let number = |cell: &Figure| cell.number().unwrap_or_default();
                    self.values::<DoubleType>(group, &cells.map(number).collect::<Vec<_>>())
                }
                _ => {
                    let text = |cell: &Figure| ByteArray::from(cell.to_string().into_bytes());
                    self.values::<ByteArrayType>(group, &cells.map(text).collect::<Vec<_>>())
                }
            }
        }

        fn values<T: DataType>(&self, group: &mut Group, values: &[T::T]) -> Result<(), ParquetError> {
            let known: Vec<i16> = self.cells.iter().map(|cell| i16::from(cell.is_some())).collect();
            let missing = || ParquetError::General("the schema has fewer columns than are written".into());
            let mut column = group.next_column()?.ok_or_else(missing)?;
            column.typed::<T>().write_batch(values, Some(&known), None)?;
            column.close()
        }
    }

    #[cfg(test)]
    mod tests {
        use parquet::file::reader::{FileReader, SerializedFileReader};

        use super::*;

        #[test]
        fn a_table_is_read_back_with_its_types_and_gaps() {
            let column = |name: &str, cells: &[Option<Figure>]| Column {
                name: name.to_owned(),
                cells: cells.to_vec(),
            };
            let (whole, number) = (Figure::Whole(7), Figure::Number(0.5));
            let table = Table {
                columns: vec![
                    column("layer.cache.size", &[Some(Figure::Text("a\"b".to_owned())), None]),
                    column("whole", &[Some(whole.clone()), Some(Figure::Whole(-1))]),
                    column("number", &[Some(whole.clone()), Some(number)]),
                    column("mixed", &[Some(whole), Some(Figure::Text("x".to_owned()))]),
                    column("empty", &[None, None]),
                ],
            };
            let bytes = table.parquet("program 1").unwrap();
            assert_eq!(bytes, table.parquet("program 1").unwrap());
            let mut file = tempfile::tempfile().unwrap();
            std::io::Write::write_all(&mut file, &bytes).unwrap();
            let reader = SerializedFileReader::new(file).unwrap();
            let rows: Vec<String> =
                reader.get_row_iter(None).unwrap().map(|row| row.unwrap().to_string()).collect();
            assert_eq!(
                rows,
                [
                    "{layer.cache.size: \"a\"b\", whole: 7, number: 7.0, mixed: \"7\", empty: null}",
                    "{layer.cache.size: null, whole: -1, number: 0.5, mixed: \"x\", empty: null}"
                ]
            );
            let metadata = reader.metadata().file_metadata().key_value_metadata().unwrap();
            assert_eq!(metadata[0].value.as_deref(), Some("program 1"));
        }
    }
}
