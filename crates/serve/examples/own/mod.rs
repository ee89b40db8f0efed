//! Our own client, for benchmarks: a fixed number of requests in flight.

use std::error::Error;
use std::io::{Read, Write};
use std::os::unix::net::UnixStream;

use seekless_serve::nbd;

use super::client;
use super::contest::{Contender, Load, now};

/// Seconds, and CPU seconds of the server, for a load.
pub fn measure(contender: &Contender, load: &Load) -> Result<(f64, f64), Box<dyn Error>> {
    let Load { command, bytes, depth, requests, .. } = *load;
    let mut socket = UnixStream::connect(&contender.socket)?;
    client::agree(&mut socket, contender.export, load.structured)?;
    let (data, mut state) = (vec![7; bytes as usize], 1_u64);
    let mut request = |out: &mut Vec<u8>| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        let offset = (state >> 33) % (load.within / u64::from(bytes)) * u64::from(bytes);
        client::request(out, command, state, offset, &data);
    };
    // A chunk of a read also has an offset; all data of a request comes in one chunk.
    let reads = command == nbd::Command::Read;
    let header = if !load.structured {
        16
    } else if reads {
        28
    } else {
        20
    };
    let reply = header + if reads { bytes as usize } else { 0 };
    let (mut out, mut input) = (Vec::new(), vec![0; (reply * depth).max(1 << 16)]);
    let (began, cpu) = (now(), cpu_seconds(contender.child.id())?);
    let (mut sent, mut done, mut got) = (0, 0, 0);
    while done < requests {
        out.clear();
        while sent < requests && sent - done < depth {
            request(&mut out);
            sent += 1;
        }
        socket.write_all(&out)?;
        got += socket.read(&mut input[got..])?;
        done += got / reply;
        // Whole replies are dropped, a partial one is kept.
        input.copy_within(got / reply * reply..got, 0);
        got %= reply;
    }
    Ok(((now() - began).as_secs_f64(), cpu_seconds(contender.child.id())? - cpu))
}

/// CPU seconds of all threads of a process.
fn cpu_seconds(process: u32) -> Result<f64, Box<dyn Error>> {
    let mut sum = 0.0;
    for thread in std::fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may end meanwhile.
        let text = std::fs::read_to_string(thread?.path().join("schedstat")).unwrap_or_default();
        sum += text.split(' ').next().and_then(|ns| ns.parse::<f64>().ok()).unwrap_or(0.0) / 1e9;
    }
    Ok(sum)
}
