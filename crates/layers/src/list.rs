//! The list of layers, an entry each: what `ls` shows, for programs.

use std::future::ready;
use std::rc::Rc;

use seekless_core::{ErrorKind, IoError, Layer, PAGE_SECTORS};

use crate::alis;
use crate::borg::{self, Borg};
use crate::cache::{self, Cache};
use crate::cdp;
use crate::dcd;
use crate::dedup;
use crate::defrag;
use crate::fault::Faulty;
use crate::fault::delay::{self, Delay};
use crate::fault::error::{self, Error};
use crate::fault::lose::{self, Lose};
use crate::fault::powercut::{self, PowerCut};
use crate::function;
use crate::hot;
use crate::hybrid;
use crate::launch;
use crate::lld::{self, Lld};
use crate::lru;
use crate::mapper::{self, Mapper};
use crate::mirror;
use crate::organpipe;
use crate::proximal;
use crate::raid4::{self, Raid};
use crate::registry::{Building, Built, Entry, Over, Remedy, defaults, options, parse_options};
use crate::replicas;
use crate::schedule::Schedule;
use crate::scrub::{self, Scrub};
use crate::smq;
use crate::spindown;
use crate::split::{self, Split};

/// A layer that is built immediately.
fn built<T: Layer + 'static>(layer: impl FnOnce() -> Result<T, IoError>) -> Building {
    Box::pin(ready(layer().map(|layer| Built::new(Rc::new(layer)))))
}

/// The layers of this crate, by name.
pub static LAYERS: [Entry; 27] = [
    alis::ENTRY,
    Entry {
        transparent: true,
        title: "BORG",
        readme: include_str!("borg/README.md"),
        devices: &["bopt"],
        commands: borg::COMMANDS,
        edges: borg::EDGES,
        canaries: borg::CANARIES,
        sealed: true,
        models: true,
        check: |table| parse_options(table, borg::Options::check).map(drop),
        defaults: defaults::<borg::Options>,
        flags: &["write_buffer", "threshold", "training", "reconfigure_class"],
        served: Schedule::WhenItPays,
        served_options: "measure_share = 1",
        remedies: borg::REMEDIES,
        holds_newer: true,
        tools: &borg::BorgTools,
        create: Some(|below, table, replace| {
            Box::pin(async move {
                let options = options("borg", table, borg::Options::check)?;
                Borg::format_new(below.one()?, below.device("bopt")?, options, replace).await
            })
        }),
        upgrade: Some(|below, table| {
            Box::pin(async move {
                let options = options("borg", table, borg::Options::check)?;
                Borg::upgrade(below.one()?, below.device("bopt")?, options).await
            })
        }),
        ..Entry::new(
            "borg",
            "copies the blocks that are used together next to each other, and absorbs writes there",
            |below, table| {
                Box::pin(
                    async move { Borg::build(&below, options("borg", table, borg::Options::check)?).await },
                )
            },
        )
    },
    Entry {
        transparent: true,
        readme: include_str!("cache/README.md"),
        commands: &cache::COMMANDS,
        edges: cache::EDGES,
        remedies: &[Remedy {
            name: "more cache",
            does: "1 GiB of memory more",
            options: "size = '1GiB'",
            freeblock: false,
        }],
        canaries: cache::CANARIES,
        check: |table| parse_options(table, cache::Options::check).map(drop),
        defaults: defaults::<cache::Options>,
        ..Entry::new(
            "cache",
            "keeps pages in memory, answers writes there, and reads and writes ahead where that costs nothing",
            |below, table| {
                let options = options("cache", table, cache::Options::check);
                let built = options.and_then(|options| Ok(Built::new(Cache::new(below.one()?, options))));
                Box::pin(ready(built))
            },
        )
    },
    cdp::ENTRY,
    dcd::ENTRY,
    dedup::ENTRY,
    defrag::ENTRY,
    Entry {
        transparent: true,
        grows: true,
        readme: include_str!("fault/delay/README.md"),
        check: |table| parse_options(table, delay::Options::check).map(drop),
        defaults: defaults::<delay::Options>,
        ..Entry::new("delay", "makes requests take longer", |below, table| {
            built(|| {
                let options = options("delay", table, delay::Options::check)?;
                Ok(Faulty::new(below.one()?, Delay::new(options)))
            })
        })
    },
    Entry {
        transparent: true,
        grows: true,
        readme: include_str!("fault/error/README.md"),
        check: |table| parse_options(table, error::Options::check).map(drop),
        defaults: defaults::<error::Options>,
        ..Entry::new("error", "makes requests fail", |below, table| {
            built(|| {
                let options = options("error", table, error::Options::check)?;
                Ok(Faulty::new(below.one()?, Error::new(&options)))
            })
        })
    },
    function::ENTRY,
    hot::ENTRY,
    hybrid::ENTRY,
    launch::ENTRY,
    Entry {
        readme: include_str!("lld/README.md"),
        edges: lld::EDGES,
        canaries: lld::CANARIES,
        sealed: true,
        // Blocks that were moved apart have no checksum once the layer is opened again.
        checks_data: |options, _| options.get("cleaner").and_then(toml::Value::as_str) != Some("freeblock"),
        check: |table| parse_options(table, lld::Options::check).map(drop),
        defaults: defaults::<lld::Options>,
        sectors: Some(|table, below| {
            let options = parse_options(table, lld::Options::check)?;
            Ok(u64::from(options.layout(below.sum())?.blocks) * PAGE_SECTORS)
        }),
        create: Some(|below, table, replace| {
            Box::pin(async move {
                let options = options("lld", table, lld::Options::check)?;
                Lld::create(below.one()?, options, replace).await.map(|()| None)
            })
        }),
        upgrade: Some(|below, table| {
            Box::pin(
                async move { Lld::upgrade(below.one()?, options("lld", table, lld::Options::check)?).await },
            )
        }),
        ..Entry::new(
            "lld",
            "writes blocks in segments, one after the other, and cleans those of which little is live",
            |below, table| {
                Box::pin(async move {
                    let options = options("lld", table, lld::Options::check)?;
                    Ok(Built::new(Lld::open(below.one()?, options, below.create).await?))
                })
            },
        )
    },
    Entry {
        transparent: true,
        readme: include_str!("fault/lose/README.md"),
        check: |table| parse_options(table, lose::Options::check).map(drop),
        defaults: defaults::<lose::Options>,
        ..Entry::new("lose", "loses, tears or misdirects writes, or never answers", |below, table| {
            built(|| {
                let options = options("lose", table, lose::Options::check)?;
                Ok(Faulty::new(below.one()?, Lose::new(&options)))
            })
        })
    },
    lru::ENTRY,
    Entry {
        readme: include_str!("mapper/README.md"),
        edges: mapper::EDGES,
        canaries: mapper::CANARIES,
        sealed: true,
        check: |table| parse_options(table, mapper::Options::check).map(drop),
        defaults: defaults::<mapper::Options>,
        sectors: Some(|table, below| {
            Ok(parse_options(table, mapper::Options::check)?.pages(below.sum())? * PAGE_SECTORS)
        }),
        create: Some(|below, table, replace| {
            Box::pin(async move {
                let options = options("mapper", table, mapper::Options::check)?;
                Mapper::create(below.one()?, &options, replace).await.map(|()| None)
            })
        }),
        upgrade: Some(|below, table| {
            Box::pin(async move {
                let options = options("mapper", table, mapper::Options::check)?;
                let why = "found a mapper of the first format, expected one of the newest: its data would have to move, \
                           so copy it to a new volume";
                let refused = || IoError::new(ErrorKind::Unsupported, "mapper", None, why);
                Mapper::open(below.one()?, &options, false)
                    .await?
                    .is_sealed()
                    .then_some(())
                    .ok_or_else(refused)
            })
        }),
        ..Entry::new("mapper", "puts pages into any slot, and keeps a map on disk", |below, table| {
            Box::pin(async move {
                let options = options("mapper", table, mapper::Options::check)?;
                Ok(Built::new(Mapper::open(below.one()?, &options, below.create).await?))
            })
        })
    },
    mirror::ENTRY,
    organpipe::ENTRY,
    Entry {
        transparent: true,
        readme: include_str!("fault/powercut/README.md"),
        check: |table| parse_options(table, powercut::Options::check).map(drop),
        defaults: defaults::<powercut::Options>,
        ..Entry::new(
            "powercut",
            "keeps writes in a volatile cache, and loses power at the n-th request",
            |below, table| {
                built(|| {
                    Ok(PowerCut::new(below.one()?, options("powercut", table, powercut::Options::check)?))
                })
            },
        )
    },
    proximal::ENTRY,
    Entry {
        title: "RAID-4",
        readme: include_str!("raid4/README.md"),
        over: Over::Several,
        devices: &[raid4::PARITY],
        optional: &[raid4::LOG],
        commands: raid4::COMMANDS,
        tools: &raid4::RaidTools,
        edges: raid4::EDGES,
        edges_of_tests: raid4::EDGES_OF_TESTS,
        canaries: raid4::CANARIES,
        sealed: true,
        // Without a log a block that was being written cannot be told from one that rotted.
        checks_data: |_, has| has(raid4::LOG),
        survives_with: Some(raid4::LOG),
        check: |table| parse_options(table, raid4::Options::check).map(drop),
        defaults: defaults::<raid4::Options>,
        sectors: Some(|table, below| parse_options(table, raid4::Options::check)?.sectors(below)),
        create: Some(|below, table, replace| {
            Box::pin(async move {
                let options = options("raid4", table, raid4::Options::check)?;
                Raid::create(below, &options, replace).await.map(|()| None)
            })
        }),
        ..Entry::new(
            "raid4",
            "keeps checksums and parity over several devices, and repairs what does not match",
            |below, table| {
                Box::pin(async move {
                    let options = options("raid4", table, raid4::Options::check)?;
                    Ok(Built::new(Raid::open(&below, &options).await?))
                })
            },
        )
    },
    replicas::ENTRY,
    Entry {
        transparent: true,
        grows: true,
        readme: include_str!("scrub/README.md"),
        commands: scrub::COMMANDS,
        edges: scrub::EDGES,
        check: |table| parse_options(table, scrub::Options::check).map(drop),
        defaults: defaults::<scrub::Options>,
        ..Entry::new("scrub", "reads the whole volume periodically, to find bad sectors", |below, table| {
            let options = options("scrub", table, scrub::Options::check);
            let built = options.and_then(|options| Ok(Built::new(Scrub::new(below.one()?, options))));
            Box::pin(ready(built))
        })
    },
    smq::ENTRY,
    spindown::ENTRY,
    Entry {
        transparent: true,
        grows: true,
        readme: include_str!("split/README.md"),
        edges: split::EDGES,
        check: |table| parse_options(table, split::Options::check).map(drop),
        defaults: defaults::<split::Options>,
        ..Entry::new("split", "hands large requests on in parts", |below, table| {
            built(|| Ok(Split::new(below.one()?, &options("split", table, split::Options::check)?)))
        })
    },
];
