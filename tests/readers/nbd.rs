//! Arbitrary bytes from a client of a served volume: nothing panics, answers are bounded, and they do not depend on how
//! the bytes are split.
//!
//! The input is a byte with the size of the pieces and whether TLS is demanded; then the client's bytes.

use seekless_serve::nbd::{
    Command, Context, Encryption, Export, Handshake, Request, Step, Style, filter, request,
};

/// The server's view of a client's bytes.
#[derive(Debug, PartialEq, Eq)]
struct Made {
    answered: Vec<u8>,
    last: Option<Step>,
    /// How often the client requested TLS, and got it. Later bytes are fed as if TLS had decrypted them.
    encrypted: u32,
    requests: Vec<Request>,
    /// Payloads of block status.
    filters: Vec<Option<(u64, Vec<u32>)>>,
    /// Bytes in place of a request.
    wrong: Option<u32>,
}

fn export(name: &str, flags: u16) -> Export {
    Export {
        name: name.to_owned(),
        description: "a volume".to_owned(),
        bytes: 1 << 30,
        flags,
        smallest: 512,
        preferred: 4096,
        largest: 32 << 20,
        contexts: vec![Context::Allocation, Context::Place, Context::Heat],
    }
}

fn made(exports: &[Export], encryption: Encryption, sent: &[u8], piece: usize) -> Made {
    let mut handshake = Handshake::new(exports, encryption);
    let mut made = Made {
        answered: Vec::new(),
        last: None,
        encrypted: 0,
        requests: Vec::new(),
        filters: Vec::new(),
        wrong: None,
    };
    let (mut rest, mut skip): (Vec<u8>, u64) = (Vec::new(), 0);
    for part in sent.chunks(piece) {
        rest.extend(part);
        while made.last.is_none() {
            let (took, step) = handshake.feed(&rest, &mut made.answered);
            assert!(took <= rest.len(), "it took what is not there");
            rest.drain(..took);
            match step {
                Step::More if took == 0 => break,
                Step::More => {}
                Step::Encrypt => {
                    made.encrypted += 1;
                    assert!(encryption == Encryption::Demanded && made.encrypted == 1);
                }
                last => made.last = Some(last),
            }
        }
        let Some(Step::Serve(agreed)) = &made.last else { continue };
        assert!(encryption == Encryption::None || made.encrypted == 1, "served in plain text");
        assert!(agreed.export < exports.len());
        loop {
            let passed = skip.min(rest.len() as u64);
            rest.drain(..passed as usize);
            skip -= passed;
            if skip > 0 || made.wrong.is_some() {
                break;
            }
            match request(&rest, agreed.style == Style::Extended) {
                Ok(Some((found, header))) => {
                    if found.command == Command::BlockStatus && (1..=20).contains(&found.payload) {
                        let Some(payload) = rest.get(header..header + found.payload as usize) else { break };
                        made.filters.push(filter(payload));
                    }
                    rest.drain(..header);
                    skip = found.payload;
                    made.requests.push(found);
                }
                Ok(None) => break,
                Err(wrong) => made.wrong = Some(wrong.magic),
            }
        }
    }
    made
}

pub fn run(input: &[u8]) {
    let Some((first, sent)) = input.split_first() else { return };
    let encryption = if first & 1 == 0 { Encryption::None } else { Encryption::Demanded };
    let piece = first >> 1;
    let exports = [export("disk", 1), export("other", 3)];
    let whole = made(&exports, encryption, sent, sent.len().max(1));
    assert_eq!(whole, made(&exports, encryption, sent, 1 + usize::from(piece)));
    // An option has a header of 16 bytes, and its answer is at most twice the information on each export.
    assert!(
        whole.answered.len() <= 400 * (sent.len() / 4 + 1),
        "{} bytes for {}",
        whole.answered.len(),
        sent.len()
    );
}
