//! The layer of the README: each read takes a millisecond more.
use std::{process::ExitCode, rc::Rc};
use seekless::core::{BlockDevice, Buffer, Counters, Extent, Hints, IoFuture, Layer, Nanos, device::io, runtime};
use seekless::layers::registry::{Built, Entry};
static LAYERS: [Entry; 1] = [Entry::new("slow", "has each read take a millisecond more", |below, _options| {
    Box::pin(async move { Ok(Built::new(Rc::new(Slow(below.one()?)))) })
})];
struct Slow(Rc<dyn BlockDevice>);
impl BlockDevice for Slow {
    fn below(&self) -> Option<&dyn BlockDevice> { Some(&*self.0) }
    fn read(&self, at: Extent, into: Buffer, how: Hints) -> IoFuture<'_, Buffer> {
        io(async move {
            runtime::sleep(Nanos::from_millis(1)).await;
            self.0.read(at, into, how).await
        })
    }
}
impl Layer for Slow { fn counters(&self) -> Counters { vec![] } }
fn main() -> ExitCode { seekless::main_with(&LAYERS) }
