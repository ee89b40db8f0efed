//! Calibrates a drive that is emulated in real time: the effect of this machine's late wake-ups on the figures, without
//! a disk. Takes minutes: `cargo run --release -p seekless-serve --example emulated NAME`.

use std::cell::RefCell;

use seekless_core::device::io;
use seekless_core::runtime::{Runtime, now, sleep};
use seekless_core::{BlockDevice, Buffer, ErrorKind, Extent, Geometry, Hints, IoError, IoFuture, Op};
use seekless_drive::calibrate::{Comparison, Options, calibrate};
use seekless_drive::disk::Drive;
use seekless_serve::Clock;

/// A simulated drive that takes real time.
struct Emulated {
    drive: RefCell<Drive>,
    clock: Clock,
}

impl BlockDevice for Emulated {
    fn geometry(&self) -> Geometry {
        Geometry { rotational: true, ..Geometry::of_memory(self.drive.borrow().layout().sectors()) }
    }

    fn read(&self, at: Extent, into: Buffer, _how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            self.clock.agree().await;
            let took = self.drive.borrow_mut().serve(Op::Read, at, now(), false).total();
            sleep(took).await;
            self.clock.agree().await;
            Ok(into)
        })
    }

    fn write(&self, at: Extent, _from: Buffer, _how: Hints) -> IoFuture<'_, ()> {
        let error = IoError::new(ErrorKind::ReadOnly, "emulated", Some(at), "only reads are emulated");
        Box::pin(std::future::ready(Err(error)))
    }

    fn flush(&self, _how: Hints) -> IoFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn discard(&self, at: Extent, how: Hints) -> IoFuture<'_, ()> {
        self.write(at, Buffer::default(), how)
    }
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let name = std::env::args().nth(1).unwrap_or("seagate-cheetah-15k5".to_owned());
    let spec = seekless_drive::spec::find(&name)?;
    let mut stage_before = "";
    let mut tell = |stage, _| {
        if stage != stage_before {
            println!("{stage}");
            stage_before = stage;
        }
    };
    let found = Runtime::new(1).run(async {
        let device = Emulated { drive: RefCell::new(Drive::new(&spec)), clock: Clock::start() };
        calibrate(&device, Options::default(), &mut tell).await
    })??;
    println!("{:?}\n{:#?}", found.turn_us, Comparison::new(&found, &spec));
    Ok(())
}
