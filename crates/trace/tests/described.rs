//! Text and binary records that the user describes, in the forms that are about.

mod common;

use common::samples::{Row, row};
use common::save;
use proptest::prelude::*;
use seekless_core::{Latency, Op};
use seekless_trace::{Columns, Fixed, ReadOptions, TimeUnit, Trace, load};

fn columns(spec: &str) -> ReadOptions {
    ReadOptions { columns: Some(spec.parse().unwrap()), ..ReadOptions::default() }
}

fn read(name: &str, content: &str, options: &ReadOptions) -> Trace {
    load(&[save(name, content.as_bytes())], options).unwrap()
}

fn rows(trace: &Trace) -> Vec<Row> {
    trace.records.iter().map(row).collect()
}

#[test]
fn lists_of_the_arc_and_lirs_papers_are_read() {
    let arc = read("arc.lis", "100 8 0 1\n4096 1 0 2\n", &columns("offset:sectors size:sectors - -"));
    assert_eq!(rows(&arc), [(0, 0, Op::Read, 100, 8), (1_000_000, 0, Op::Read, 4096, 1)]);
    assert!(
        arc.warnings.iter().any(|warning| warning.contains("one request a millisecond")),
        "{:?}",
        arc.warnings
    );
    assert!(arc.warnings.iter().any(|warning| warning.contains("taken for reads")), "{:?}", arc.warnings);
    let lirs = read("lirs.trc", "5\n7\n*\n5\n", &columns("offset:pages"));
    assert_eq!(lirs.records.iter().map(|record| record.extent.start.0).collect::<Vec<_>>(), [40, 56, 40]);
    assert!(lirs.warnings.iter().any(|warning| warning.contains("1 lines of '*'")), "{:?}", lirs.warnings);
}

#[test]
fn an_array_of_page_numbers_is_read() {
    let bytes: Vec<u8> = [3_u32, 1 << 20, 3].iter().flat_map(|page| page.to_le_bytes()).collect();
    let options = ReadOptions { record: Some("u32le-page".parse().unwrap()), ..ReadOptions::default() };
    let trace = load(&[save("pages.bin", &bytes)], &options).unwrap();
    assert_eq!(trace.format, "record");
    assert_eq!(
        rows(&trace),
        [(0, 0, Op::Read, 24, 8), (1_000_000, 0, Op::Read, 1 << 23, 8), (2_000_000, 0, Op::Read, 24, 8)]
    );
}

#[test]
fn binary_records_have_fields_of_both_byte_orders() {
    let record = |time: u64, offset: u32, op: u8| {
        [&time.to_be_bytes()[..], &offset.to_le_bytes(), &[9, 9, op], &4096_u16.to_be_bytes()].concat()
    };
    let bytes = [record(1_000, 8, 1), record(3_000, 16, 0)].concat();
    let spec = "u64be-time:us,u32le-sector,skip2,u8-op:1=read,u16be-size:bytes";
    let options = ReadOptions { record: Some(spec.parse().unwrap()), ..ReadOptions::default() };
    let trace = load(&[save("fields.bin", &bytes)], &options).unwrap();
    assert_eq!(rows(&trace), [(0, 0, Op::Read, 8, 8), (2_000_000, 0, Op::Write, 16, 8)]);
    let cut = load(&[save("fields-cut.bin", &bytes[..20])], &options).unwrap();
    assert_eq!(cut.records.len(), 1);
    assert!(cut.warnings.iter().any(|warning| warning.contains("cut short")), "{:?}", cut.warnings);
}

#[test]
fn csv_with_a_heading_many_columns_and_two_names_of_a_volume_is_read() {
    // As hfplayer has them, with more columns than are wanted.
    let content = "#DUMP_OFFSET.I,ELAPSED_USECS.D,CMD.S,LUN_SSID.I,LBA.I,NBLKS.I,LATENCY_USECS.D,HOST_ID.I\n\
                   4124,50,RD,6,2,2,200,7\n4152,100,WR,6,4,2,150.5,7\n";
    let spec = "-,time:us,op,device,offset:sectors,size:sectors,latency:us,*";
    let trace = read("hf.csv", content, &columns(spec));
    assert_eq!(rows(&trace), [(0, 0, Op::Read, 2, 2), (50_000, 0, Op::Write, 4, 2)]);
    assert_eq!(trace.records[1].latency, Latency::of(seekless_core::Nanos(150_500)));
    assert_eq!(trace.volumes.name(0), "6");
    let content = "when;host;disk;what;at;bytes;took;who\n1.5;web;0;TRIM;4096;8192;;nginx\n\
                   2.5;web;1;Flush;0;0;-;12\n3;web;0;RSM;512;512;0.25;nginx\n";
    let spec = "time ; volume ; device ; op ; offset:bytes ; size:bytes ; latency ; process";
    let trace = read("host.csv", content, &columns(spec));
    assert_eq!(
        rows(&trace),
        [(0, 0, Op::Discard, 8, 16), (1_000_000_000, 1, Op::Flush, 0, 0), (1_500_000_000, 0, Op::Read, 1, 1)]
    );
    assert_eq!((trace.volumes.name(0), trace.volumes.name(1)), ("web_0".into(), "web_1".into()));
    assert_eq!(trace.names.get(trace.records[0].origin.name), "nginx");
    assert_eq!(trace.records[1].origin.process.0, 12);
    assert_eq!(trace.records[2].latency, Latency::of(seekless_core::Nanos(250_000_000)));
    assert!(trace.warnings.iter().any(|warning| warning.contains("\"when;host")), "{:?}", trace.warnings);
}

#[test]
fn units_come_from_the_columns_or_the_options() {
    let options = ReadOptions {
        time_unit: Some(TimeUnit::Milli),
        sector_bytes: Some(4096),
        ..columns("time\\toffset:sectors\\top:0=read")
    };
    let trace = read("units.tsv", "0\t1\t0\n2.5\t2\t1\n", &options);
    assert_eq!(rows(&trace), [(0, 0, Op::Read, 8, 8), (2_500_000, 0, Op::Write, 16, 8)]);
    let filetime = read(
        "filetime.txt",
        "10 16KiB-blocks\n".replace("16KiB-blocks", "1").as_str(),
        &columns("time:100ns offset:16KiB"),
    );
    assert_eq!(rows(&filetime), [(0, 0, Op::Read, 32, 32)]);
    let scsi =
        read("scsi.txt", "1 0x28 0\n".replace("0x28", "40").as_str(), &columns("time op:scsi offset:pages"));
    assert_eq!(rows(&scsi), [(0, 0, Op::Read, 0, 8)]);
}

#[test]
fn a_wrong_description_is_an_error_that_says_where() {
    for (spec, words) in [
        ("time,op", "no column offset"),
        ("offset:bytes", "no column size"),
        ("offset", "column 1: found 'offset' without a unit"),
        ("time:h,offset:pages", "column 1: found the unit 'h', expected s, ms, us, ns or 100ns"),
        ("offset:700B", "expected bytes, sectors, pages or a multiple of 512B"),
        ("offset:pages,op:2=read", "column 2: found op:2=read"),
        ("offset:pages,when:s", "column 2: found the column 'when', expected time, op"),
        ("offset:pages,device:s", "found the unit 's', expected none"),
        ("offset:pages,op,op", "column 3: found what an earlier column is"),
        ("%T %x", "column 4"),
    ] {
        let error = spec.parse::<Columns>().unwrap_err();
        assert!(error.contains(words), "{spec}: {error}");
    }
    for (spec, words) in [
        ("u32le", "expected a type and a column"),
        ("u24le-page", "found the type 'u24le'"),
        ("u16le-page", "found a record of 2 bytes, expected 4 to 4096"),
        ("u32le-page,skip0", "column 2: found 'skip0', expected skip1"),
        ("u32le-page,u64le-offset:bytes", "column 2: found what an earlier column is"),
        ("u64le-time", "no column offset"),
    ] {
        let error = spec.parse::<Fixed>().unwrap_err();
        assert!(error.contains(words), "{spec}: {error}");
    }
}

#[test]
fn lines_that_do_not_fit_their_columns_are_errors() {
    for (content, words) in [
        ("1,2\n1,2,3\n", "line 2: found 3 columns in \"1,2,3\", expected 2"),
        ("1,2\nx,2\n", "line 2: found \"x\", expected a time"),
        ("1,2\n1,-2\n", "line 2: found \"-2\", expected an offset"),
        ("1,2\n1,99999999999999999999\n", "expected an offset"),
        ("1,2\n1,18446744073709551615\n", "at block 18446744073709551615 of 4096 bytes"),
        // Only a first line without any number names columns.
        ("t1,2\n", "line 1: found \"t1\", expected a time"),
        ("t,o\n", "found no request"),
    ] {
        let error =
            load(&[save("unfit.csv", content.as_bytes())], &columns("time,offset:pages")).unwrap_err();
        assert!(error.to_string().contains(words), "{content:?}: {error}");
    }
    let skipping = ReadOptions { skip_bad: true, ..columns("time,offset:pages") };
    assert_eq!(read("skipped.csv", "1,2\n1,2,3\n4,5\n", &skipping).records.len(), 2);
}

#[test]
fn a_description_does_not_apply_to_another_format() {
    let file = save("described-msr.csv", b"128166372003061629,web,1,Write,10240,4096,52\n");
    let mut options = columns("time,offset:pages");
    options.format = seekless_trace::Format::named("msr");
    let error = load(&[&file], &options).unwrap_err().to_string();
    assert!(error.contains("columns: found with the format msr, expected the format columns"), "{error}");
    let options = ReadOptions { format: seekless_trace::Format::named("record"), ..ReadOptions::default() };
    let error = load(&[&file], &options).unwrap_err().to_string();
    assert!(error.contains("--record u32le-page"), "{error}");
}

proptest! {
    #[test]
    fn what_is_written_with_any_columns_is_read_back(
        order in Just(vec!["time:us", "op", "offset:bytes", "size:bytes", "process"]).prop_shuffle(),
        separator in prop::sample::select(vec![',', ';', '|', '\t', ' ']),
        requests in prop::collection::vec((0_u64..1 << 40, any::<bool>(), 0_u64..1 << 40, 1_u64..1 << 20, 1_u32..9), 1..50),
    ) {
        let mut requests = requests;
        requests.sort_by_key(|request| request.0);
        let mut content = String::new();
        for (time, write, page, bytes, process) in &requests {
            let each = order.iter().map(|column| match *column {
                "time:us" => time.to_string(),
                "op" => if *write { "Write".into() } else { "r".into() },
                "offset:bytes" => (page * 512).to_string(),
                "size:bytes" => bytes.to_string(),
                _ => process.to_string(),
            });
            content += &each.collect::<Vec<String>>().join(&separator.to_string());
            content.push('\n');
        }
        let spec = order.join(&separator.to_string());
        let trace = read("any-columns.txt", &content, &columns(&spec));
        prop_assert_eq!(trace.records.len(), requests.len());
        for (record, (time, write, sector, bytes, process)) in trace.records.iter().zip(&requests) {
            let expected = (time - requests[0].0) * 1_000;
            prop_assert_eq!((record.time.0, record.op == Op::Write), (expected, *write));
            prop_assert_eq!((record.extent.start.0, record.extent.sectors), (*sector, bytes.div_ceil(512)));
            prop_assert_eq!(record.origin.process.0, *process);
        }
    }
}
