//! Negotiation, option by option.

use super::*;
use crate::nbd::client::option_reply;

fn exports() -> [Export; 2] {
    let export = |name: &str, contexts| Export {
        name: name.to_owned(),
        description: "a volume".to_owned(),
        bytes: 1 << 30,
        flags: c::FLAG_HAS_FLAGS | c::FLAG_SEND_DF | c::FLAG_BLOCK_STAT_PAYLOAD,
        smallest: 512,
        preferred: 4096,
        largest: 32 << 20,
        contexts,
    };
    let all = vec![Context::Allocation, Context::Place, Context::Heat];
    [export("disk", all), export("other", vec![Context::Allocation])]
}

fn option(number: u32, data: &[u8]) -> Vec<u8> {
    let header = [c::IHAVEOPT.to_be_bytes(), (u64::from(number) << 32 | data.len() as u64).to_be_bytes()];
    [&header.concat(), data].concat()
}

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u32).to_be_bytes(), text.as_bytes()].concat()
}

fn go(export: &str, asks: &[u16]) -> Vec<u8> {
    let asks: Vec<u8> = [asks.len() as u16].iter().chain(asks).flat_map(|ask| ask.to_be_bytes()).collect();
    option(c::OPT_GO, &[text(export), asks].concat())
}

fn contexts(number: u32, export: &str, queries: &[&str]) -> Vec<u8> {
    let count = (queries.len() as u32).to_be_bytes();
    let queries: Vec<u8> = queries.iter().flat_map(|query| text(query)).collect();
    option(number, &[&text(export)[..], &count, &queries].concat())
}

/// The replies to consecutive options, as types and data, and the resulting steps.
fn answers_to(encryption: Encryption, options: &[Vec<u8>]) -> (Vec<(u32, Vec<u8>)>, Vec<Step>) {
    let exports = exports();
    let mut handshake = Handshake::new(&exports, encryption);
    let mut input = 3_u32.to_be_bytes().to_vec();
    let (mut out, mut steps) = (Vec::new(), Vec::new());
    for option in options {
        input.extend(option);
        let (took, step) = handshake.feed(&input, &mut out);
        input.drain(..took);
        if step != Step::More {
            steps.push(step);
        }
    }
    let (mut answers, mut at) = (Vec::new(), 0);
    while let Some((kind, length)) = option_reply(&out[at..]) {
        answers.push((kind, out[at + 20..at + 20 + length].to_vec()));
        at += 20 + length;
    }
    (answers, steps)
}

/// The flags in the last reply to `GO`, and the agreement.
fn agreed(options: &[Vec<u8>]) -> (u16, Agreed) {
    let (answers, steps) = answers_to(Encryption::None, options);
    let message = answers.iter().rfind(|(kind, data)| *kind == c::REP_INFO && data[..2] == [0, 0]);
    let flags = u16_at(&message.expect("GO tells of the export").1, 10).unwrap();
    match &steps[..] {
        [Step::Serve(agreed)] => (flags, agreed.clone()),
        other => panic!("{other:?}"),
    }
}

#[test]
fn flags_are_of_what_was_agreed_on() {
    let has = |flags: u16| (flags & c::FLAG_SEND_DF != 0, flags & c::FLAG_BLOCK_STAT_PAYLOAD != 0);
    let (structured, extended) = (option(c::OPT_STRUCTURED_REPLY, &[]), option(c::OPT_EXTENDED_HEADERS, &[]));
    let set = |export| contexts(c::OPT_SET_META_CONTEXT, export, &["base:allocation", "seekless:heat"]);
    let go = go("disk", &[]);
    assert_eq!(has(agreed(std::slice::from_ref(&go)).0), (false, false));
    assert_eq!(has(agreed(&[structured.clone(), set("disk"), go.clone()]).0), (true, false));
    assert_eq!(has(agreed(&[extended.clone(), go.clone()]).0), (true, false));
    assert_eq!(has(agreed(&[extended.clone(), set("other"), go.clone()]).0), (true, false));
    let (flags, all) = agreed(&[extended, set("disk"), go]);
    assert_eq!(has(flags), (true, true));
    assert_eq!((all.style, all.contexts), (Style::Extended, vec![Context::Allocation, Context::Heat]));
}

#[test]
fn only_clients_that_ask_for_block_sizes_know_them() {
    let knows = |options: &[Vec<u8>]| agreed(options).1.knows_blocks;
    assert!(!knows(&[go("disk", &[])]));
    assert!(!knows(&[go("disk", &[c::INFO_NAME])]));
    assert!(knows(&[go("disk", &[c::INFO_NAME, c::INFO_BLOCK_SIZE])]));
    let info = |export| {
        let mut info = go(export, &[c::INFO_BLOCK_SIZE]);
        info[11] = c::OPT_INFO as u8;
        info
    };
    assert!(knows(&[info("disk"), go("disk", &[])]));
    assert!(!knows(&[info("other"), go("disk", &[])]), "another's");
    assert!(matches!(&answers_to(Encryption::None, &[option(c::OPT_EXPORT_NAME, b"disk")]).1[..],
        [Step::Serve(agreed)] if !agreed.knows_blocks));
}

#[test]
fn contexts_are_those_of_the_export() {
    let structured = option(c::OPT_STRUCTURED_REPLY, &[]);
    let listed = |export, queries: &[&str]| {
        let list = contexts(c::OPT_LIST_META_CONTEXT, export, queries);
        let answers = answers_to(Encryption::None, &[structured.clone(), list]).0.into_iter();
        let names = answers.filter(|(kind, _)| *kind == c::REP_META_CONTEXT);
        names.map(|(_, data)| String::from_utf8(data[4..].to_vec()).unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(listed("disk", &[]), ["base:allocation", "seekless:place", "seekless:heat"]);
    assert_eq!(listed("disk", &["seekless:"]), ["seekless:place", "seekless:heat"]);
    assert_eq!(listed("other", &["base:allocation", "seekless:heat"]), ["base:allocation"]);
    assert!(listed("other", &["seekless:"]).is_empty());
}

#[test]
fn where_tls_is_demanded_all_else_waits_for_it() {
    let list = option(c::OPT_LIST, &[]);
    let start = option(c::OPT_STARTTLS, &[]);
    let (answers, steps) = answers_to(
        Encryption::Demanded,
        &[list.clone(), go("disk", &[]), start.clone(), list.clone(), start.clone(), go("disk", &[])],
    );
    let kinds: Vec<u32> = answers.iter().map(|(kind, _)| *kind).collect();
    let listed = [c::REP_SERVER, c::REP_SERVER, c::REP_ACK];
    let before = [c::REP_ERR_TLS_REQD, c::REP_ERR_TLS_REQD, c::REP_ACK];
    let after = [c::REP_ERR_INVALID, c::REP_INFO, c::REP_ACK];
    assert_eq!(kinds, [before, listed, after].concat());
    assert!(matches!(&steps[..], [Step::Encrypt, Step::Serve(_)]), "{steps:?}");
    assert_eq!(
        answers_to(Encryption::Demanded, &[option(c::OPT_EXPORT_NAME, b"disk")]),
        (vec![], vec![Step::End])
    );
    assert_eq!(answers_to(Encryption::None, &[start]).0[0].0, c::REP_ERR_POLICY);
}
