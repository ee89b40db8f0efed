//! Any bytes as the outline or the partial of a trace's shard: it is refused, or can be used. A partial that is all of
//! its trace gives statistics, it merges with nothing twice, and what is written of it is read again.
//!
//! The first byte says whether the rest is a file, or the text in it: a checksum does not stop a person who means harm.

use seekless_core::Nanos;
use seekless_trace::stats::shards::{self, Kind, Outline, Outlining, PartAnalysis, Partial};
use seekless_trace::{ReadOptions, Reader, StatsOptions};

fn packed(text: &[u8]) -> Vec<u8> {
    zstd::encode_all(text, 1).expect("memory takes it")
}

fn rewritten(value: &impl Kind) -> Vec<u8> {
    let mut bytes = Vec::new();
    shards::write(value, &mut bytes).expect("memory takes it");
    bytes
}

pub fn run(input: &[u8]) {
    let Some((first, rest)) = input.split_first() else { return };
    let file = if *first == 0 { rest.to_vec() } else { packed(rest) };
    if let Ok(partial) = shards::read::<Partial>(&file[..]) {
        let again = shards::read::<Partial>(&rewritten(&partial)[..]).expect("what was written is read");
        assert_eq!(again.requests(), partial.requests());
        assert!(Partial::merge(vec![partial.clone(), again]).is_err(), "a shard is there twice");
        let is_whole = partial.shards() == partial.all_shards();
        assert_eq!(partial.finish().is_ok(), is_whole);
    }
    if let Ok(outline) = shards::read::<Outline>(&file[..]) {
        assert_eq!(shards::read::<Outline>(&rewritten(&outline)[..]).as_ref(), Ok(&outline));
        // A shard overlaps with itself unless it has no time at all.
        let _ = Outline::merge([outline.clone(), outline.clone()]);
        assert_eq!(Outline::merge([outline.clone()]), Ok(outline));
    }
}

/// The outline and the partial of a small trace, as files and as texts.
pub fn seeds() -> Vec<Vec<u8>> {
    let trace: &[u8] = b"0.5 ; 8 ; 8 ; R\n0.7 ; 16 ; 8 ; W\n0.9 ; 8 ; 8 ; R\n1.9 ; 8 ; 16 ; W\n";
    let reader = || Reader::from_stream("a.load", trace, &ReadOptions::default()).expect("a trace");
    let (mut outlining, mut read) = (Outlining::default(), reader());
    read.by_ref().map_while(Result::ok).for_each(|record| outlining.note(&record));
    let start = read.start().unwrap_or(Nanos::ZERO);
    let outline = outlining.finish("a.load", start, read.volumes());
    let options = StatsOptions::default();
    let analysis = PartAnalysis::new(&outline, ("a.load", start), read.volumes(), &options, 0);
    let mut analysis = analysis.expect("its own outline");
    reader().map_while(Result::ok).for_each(|record| analysis.follow(&record));
    let partial = analysis.finish(read.names()).expect("all of it");
    let files = [rewritten(&outline), rewritten(&partial)];
    let text = |file: &Vec<u8>| [&[1][..], &zstd::decode_all(&file[..]).expect("it was packed")].concat();
    files.iter().flat_map(|file| [[&[0][..], file].concat(), text(file)]).collect()
}
