//! Files of outlines and partials: an object of JSON that names its kind and version, compressed by zstd with a
//! checksum.

use std::io::{self, Read, Write};

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::ShardError;
use super::outline::Outline;
use super::partial::Partial;

/// The version of both: another program may not read it.
const VERSION: u32 = 4;
/// Larger files are damaged, or from someone who means harm.
const MOST_BYTES: u64 = 16 << 30;
/// The default of `zstd`.
const LEVEL: i32 = 3;

/// A kind of file.
pub trait Kind: Serialize + DeserializeOwned {
    /// Its name.
    const NAME: &'static str;

    /// Checks that its parts belong together.
    fn check(&self) -> Result<(), ShardError>;
}

impl Kind for Outline {
    const NAME: &'static str = "trace-outline";

    fn check(&self) -> Result<(), ShardError> {
        Outline::check(self)
    }
}

impl Kind for Partial {
    const NAME: &'static str = "trace-partial";

    fn check(&self) -> Result<(), ShardError> {
        Partial::check(self)
    }
}

/// The first keys of a file, before all others.
#[derive(Serialize, Deserialize)]
struct Head {
    schema: String,
}

#[derive(Serialize)]
struct Named<'a, T> {
    schema: String,
    content: &'a T,
}

#[derive(Deserialize)]
#[serde(bound = "T: DeserializeOwned")]
struct Content<T> {
    content: T,
}

fn schema(kind: &str) -> String {
    format!("seekless/{kind}/{VERSION}")
}

/// Writes a file.
pub fn write<T: Kind>(value: &T, to: impl Write) -> io::Result<()> {
    let mut packed = zstd::stream::write::Encoder::new(to, LEVEL)?;
    packed.include_checksum(true)?;
    let mut buffer = io::BufWriter::new(packed);
    serde_json::to_writer(&mut buffer, &Named { schema: schema(T::NAME), content: value })?;
    buffer.into_inner().map_err(io::IntoInnerError::into_error)?.finish()?;
    Ok(())
}

/// Reads a file.
pub fn read<T: Kind>(from: impl Read) -> Result<T, ShardError> {
    let error = |found: String| ShardError::File { found, expected: schema(T::NAME) };
    let broken = |cause: io::Error| match cause.kind() {
        io::ErrorKind::UnexpectedEof => error("a file that was cut short".into()),
        _ => error(format!("a damaged file ({cause})")),
    };
    let packed = zstd::stream::read::Decoder::new(from).map_err(broken)?;
    let mut text = Vec::new();
    packed.take(MOST_BYTES).read_to_end(&mut text).map_err(|cause| match cause.kind() {
        io::ErrorKind::Other if text.is_empty() => error("another file".into()),
        _ => broken(cause),
    })?;
    let head: Head = serde_json::from_slice(&text).map_err(|_| error("another file".into()))?;
    if head.schema != schema(T::NAME) {
        return Err(error(head.schema));
    }
    let content: Content<T> =
        serde_json::from_slice(&text).map_err(|cause| error(format!("a damaged file ({cause})")))?;
    content.content.check()?;
    Ok(content.content)
}
