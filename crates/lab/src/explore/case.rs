//! Crashes that a volume did not survive, as text that people can read and the program can replay.
//!
//! A line for each request in order, and a line for each crash: the number of events before it, and which sectors of
//! which of the components' non-durable writes survived. Fault model: a file may hold anything; an invalid line is
//! refused with its number. What fits no longer, since a layer writes differently than it did, is ignored: it is still
//! a crash.

use std::fmt;
use std::str::FromStr;

use seekless_core::{Extent, Op};
use seekless_layers::topmost;

use super::conditions::{Conditions, Faults, Pace};
use super::named::{self, Change};
use super::power::{Crash, Survivor};
use super::script::{Request, Step};
use seekless_volume::settings::Setting;

/// The first line.
const HEAD: &str = "seekless crash 1";

/// A run up to a crash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Requests and commands.
    pub steps: Vec<Step>,
    /// Clients, and the behaviour of components.
    pub conditions: Conditions,
    /// Options of the volume that differ from its file: of the first run only.
    pub settings: Vec<Setting>,
    /// Whether every page is written first: of the first run only.
    pub fill: bool,
    /// The component and number of the request that fails, if one does, and whether all from then on fail.
    pub fault: Option<(u32, u64, bool)>,
    /// The crash that ends it, if any.
    pub crash: Option<Crash>,
}

/// Runs, crash by crash.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Case(pub Vec<Segment>);

/// Why a text is not a case.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("line {line}: found {found}, expected {expected}")]
pub struct CaseError {
    /// Line number, from 1.
    pub line: usize,
    /// What was found.
    pub found: String,
    /// What was expected.
    pub expected: &'static str,
}

impl Segment {
    /// Whether requests to components may fail.
    pub fn fails(&self) -> bool {
        self.fault.is_some() || !self.conditions.faults.is_none()
    }
}

impl Case {
    /// Checks that it can be replayed on a volume of `sectors` sectors on `components` components; the error describes
    /// what cannot.
    pub fn fits(&self, sectors: u64, components: usize) -> Result<(), String> {
        for segment in &self.0 {
            if let Some(step) = segment.steps.iter().find(|step| step.at().end().0 > sectors) {
                let at = step.at();
                return Err(format!("found a request to {at}, expected an end of at most sector {sectors}"));
            }
            if let Some((component, ..)) = segment.fault.filter(|fault| fault.0 as usize >= components) {
                return Err(format!(
                    "found a fault of component {component}, expected one of {components}, from 0"
                ));
            }
        }
        if self.0.is_empty() { Err("found no run, expected one or more".to_owned()) } else { Ok(()) }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{HEAD}")?;
        for segment in &self.0 {
            let Conditions { clients, seed, pace, faults, numbers, weak, uncached, marks, pause } =
                segment.conditions;
            writeln!(f, "run clients {clients} seed {seed}")?;
            segment.settings.iter().try_for_each(|setting| writeln!(f, "set {setting}"))?;
            pace.line().map_or(Ok(()), |line| writeln!(f, "{line}"))?;
            if !faults.is_none() {
                writeln!(f, "{faults}")?;
            }
            if numbers > 0 {
                writeln!(f, "numbers from {numbers}")?;
            }
            if weak > 0 {
                writeln!(f, "weak {weak}")?;
            }
            (0..64)
                .filter(|number| uncached >> number & 1 == 1)
                .try_for_each(|number| writeln!(f, "uncached {number}"))?;
            if marks {
                writeln!(f, "marks")?;
            }
            if pause > 0 {
                writeln!(f, "pause {pause}us")?;
            }
            if segment.fill {
                writeln!(f, "fill")?;
            }
            if let Some((component, nth, for_ever)) = segment.fault {
                let for_ever = if for_ever { " for ever" } else { "" };
                writeln!(f, "fail component {component} request {nth}{for_ever}")?;
            }
            segment.steps.iter().try_for_each(|step| writeln!(f, "{step}"))?;
            if let Some(Crash { events, survivors, keeps, rot, edited, gone }) = &segment.crash {
                write!(f, "{} {events}", if *keeps == u64::MAX { "kill" } else { "crash" })?;
                let kept = (0..64).filter(|number| *keeps != u64::MAX && keeps >> number & 1 == 1);
                kept.into_iter().try_for_each(|number| write!(f, " keeping {number}"))?;
                rot.map_or(Ok(()), |rot| write!(f, " rotten {rot}"))?;
                edited.map_or(Ok(()), |seed| write!(f, " edited {seed}"))?;
                gone.map_or(Ok(()), |gone| write!(f, " without {gone}"))?;
                for Survivor { write, first, end } in survivors {
                    write!(f, " {write}:{first}+{}", end - first)?;
                }
                writeln!(f)?;
            }
        }
        Ok(())
    }
}

impl fmt::Display for Step {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Step::Do(command) => write!(f, "do {command}"),
            Step::Change(change) => write!(f, "{change}"),
            Step::Within(number, request) => write!(f, "{}", named::within(*number, request)),
            Step::Ask(Request { op: Op::Flush, .. }) | Step::Meet(Request { op: Op::Flush, .. }) => {
                write!(f, "flush")
            }
            Step::Ask(Request { op, at, fua }) | Step::Meet(Request { op, at, fua }) => {
                let meets = if matches!(self, Step::Meet(_)) { "meeting " } else { "" };
                write!(f, "{meets}{op} {}+{}{}", at.start.0, at.sectors, if *fua { " fua" } else { "" })
            }
        }
    }
}

impl FromStr for Case {
    type Err = CaseError;

    fn from_str(text: &str) -> Result<Case, CaseError> {
        let mut lines = (1..)
            .zip(text.lines())
            .map(|(number, line)| (number, line.split('#').next().unwrap_or_default().trim()))
            .filter(|(_, line)| !line.is_empty());
        let invalid = |(line, found): (usize, &str), expected| {
            Err(CaseError {
                line,
                found: format!("'{}'", found.chars().take(60).collect::<String>()),
                expected,
            })
        };
        match lines.next() {
            Some((_, HEAD)) => {}
            other => return invalid(other.unwrap_or((1, "")), HEAD),
        }
        let mut case = Case::default();
        for (number, line) in lines {
            let words: Vec<&str> = line.split_whitespace().collect();
            let open = case.0.last_mut().filter(|segment| segment.crash.is_none());
            let read = match (words.as_slice(), open) {
                (["run", "clients", clients, "seed", seed], _) => (|| {
                    let clients = clients.parse().ok().filter(|clients| (1..=1_000).contains(clients))?;
                    let seed = seed.parse().ok()?;
                    case.0.push(Segment {
                        steps: Vec::new(),
                        conditions: Conditions::usual(clients, seed),
                        settings: Vec::new(),
                        fill: false,
                        fault: None,
                        crash: None,
                    });
                    Some(())
                })(),
                ([how @ ("crash" | "kill"), events, rest @ ..], Some(segment)) => {
                    crash(*how == "kill", events, rest).map(|crash| segment.crash = Some(crash))
                }
                (words, Some(segment)) => within_run(words, line, segment),
                (_, None) => return invalid((number, line), "run clients N seed N before anything else"),
            };
            if read.is_none() {
                let expected = "read, write, discard or write zeroes SECTOR+SECTORS (all but a read perhaps with fua), flush, fill, \
                                meeting REQUEST, do COMMAND, snapshot N, clone N [of N], delete N, in N REQUEST, set NAME.KEY = VALUE, pace tail|slow N TIMES, faults reads N writes N flushes N [together], numbers from N, weak N, uncached N, marks, pause Nus, fail \
                                component N request N [for ever], crash EVENTS [keeping N ...] or kill EVENTS, \
                                then WRITE:FIRST+SECTORS ..., or run clients N seed N";
                return invalid((number, line), expected);
            }
        }
        Ok(case)
    }
}

fn span(text: &str) -> Option<(u64, u64)> {
    let (first, sectors) = text.split_once('+')?;
    let (first, sectors) = (first.parse::<u64>().ok()?, sectors.parse::<u64>().ok()?);
    // No volume is larger, and sums stay far from overflow.
    (sectors > 0 && sectors <= 1 << 16 && first <= 1 << 50).then_some((first, sectors))
}

fn survivor(text: &str) -> Option<Survivor> {
    let (write, sectors) = text.split_once(':')?;
    let (first, sectors) = span(sectors)?;
    Some(Survivor { write: write.parse().ok()?, first, end: first + sectors })
}

/// Adds a line of a run to its segment, if the line is valid: a condition or a step.
fn within_run(words: &[&str], line: &str, segment: &mut Segment) -> Option<()> {
    let conditions = &mut segment.conditions;
    match words {
        ["set", ..] => line.trim_start_matches("set").parse().ok().map(|set| segment.settings.push(set)),
        ["pace", words @ ..] => Pace::parse(words).map(|pace| conditions.pace = pace),
        ["faults", words @ ..] => Faults::parse(words).map(|faults| conditions.faults = faults),
        ["numbers", "from", first] => {
            let first = first.parse().ok().filter(|first| (1..1 << 62).contains(first));
            first.map(|first| conditions.numbers = first)
        }
        ["weak", one_in] => {
            let one_in = one_in.parse().ok().filter(|one_in| (1..=1 << 20).contains(one_in));
            one_in.map(|one_in| conditions.weak = one_in)
        }
        ["uncached", number] => {
            let number: u32 = number.parse().ok().filter(|number| *number < 64)?;
            conditions.uncached |= 1 << number;
            Some(())
        }
        ["fail", "component", component, "request", nth, for_ever @ ..] => {
            let fault = fault(component, nth, for_ever);
            fault.map(|fault| segment.fault = Some(fault))
        }
        ["marks"] => {
            conditions.marks = true;
            Some(())
        }
        ["pause", time] => {
            let time = time.strip_suffix("us")?.parse().ok().filter(|time| (1..=1 << 30).contains(time))?;
            conditions.pause = time;
            Some(())
        }
        ["fill"] => {
            segment.fill = true;
            Some(())
        }
        _ => step(words).map(|step| segment.steps.push(step)),
    }
}

fn fault(component: &str, nth: &str, for_ever: &[&str]) -> Option<(u32, u64, bool)> {
    let for_ever = match for_ever {
        [] => false,
        ["for", "ever"] => true,
        _ => return None,
    };
    let nth = nth.parse().ok().filter(|nth| *nth > 0)?;
    Some((component.parse().ok()?, nth, for_ever))
}

fn crash(kill: bool, events: &str, mut rest: &[&str]) -> Option<Crash> {
    let mut keeps = if kill { u64::MAX } else { 0 };
    while let (["keeping", number, after @ ..], false) = (rest, kill) {
        keeps |= 1 << number.parse().ok().filter(|number: &u64| *number < 63)?;
        rest = after;
    }
    let mut rot = None;
    if let ["rotten", place, after @ ..] = rest {
        (rot, rest) = (Some(place.parse().ok()?), after);
    }
    let mut edited = None;
    if let ["edited", seed, after @ ..] = rest {
        (edited, rest) = (Some(seed.parse().ok()?), after);
    }
    let mut gone = None;
    if let ["without", number, after @ ..] = rest {
        (gone, rest) = (Some(number.parse().ok()?), after);
    }
    let survivors = rest.iter().map(|text| survivor(text)).collect::<Option<_>>()?;
    Some(Crash { events: events.parse().ok()?, survivors, keeps, rot, edited, gone })
}

fn step(words: &[&str]) -> Option<Step> {
    match words {
        ["do", command] => topmost::command(command).map(Step::Do),
        ["snapshot" | "clone" | "delete", ..] => Change::parse(words).map(Step::Change),
        ["in", number, words @ ..] => Some(Step::Within(named::number(number)?, request(words)?)),
        ["meeting", words @ ..] => request(words).filter(|request| request.op != Op::Flush).map(Step::Meet),
        _ => request(words).map(Step::Ask),
    }
}

fn request(words: &[&str]) -> Option<Request> {
    let (op, rest) = match words {
        ["flush"] => return Some(Request { op: Op::Flush, at: Extent::default(), fua: false }),
        ["read", rest @ ..] => (Op::Read, rest),
        ["write", "zeroes", rest @ ..] => (Op::WriteZeroes, rest),
        ["write", rest @ ..] => (Op::Write, rest),
        ["discard", rest @ ..] => (Op::Discard, rest),
        _ => return None,
    };
    let (at, fua) = match rest {
        [at] => (at, false),
        [at, "fua"] if op != Op::Read => (at, true),
        _ => return None,
    };
    let (start, sectors) = span(at)?;
    Some(Request { op, at: Extent::new(start, sectors), fua })
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const TEXT: &str = "seekless crash 1
run clients 4 seed 17
set borg.write_buffer = 0.5
pace tail 40 100
faults reads 0 writes 9 flushes 70
numbers from 250
weak 4
uncached 0
uncached 5
marks
pause 400us
fill
fail component 0 request 9 for ever
write 0+8 fua
write zeroes 8+8
discard 3+1
do remove
do drain
snapshot 0
clone 2 of 0
clone 3
in 2 write 8+1 fua
in 3 flush
delete 1
read 0+16
flush
kill 12 3:0+8 4:2+1
run clients 1 seed 3
crash 2 keeping 1 edited 7 5:0+1
";

    #[test]
    fn a_case_is_written_as_it_is_read() {
        let case: Case = TEXT.parse().unwrap();
        assert_eq!((case.0.len(), case.0[0].steps.len()), (2, 13));
        assert_eq!(
            case.0[0].crash,
            Some(Crash {
                events: 12,
                survivors: vec![
                    Survivor { write: 3, first: 0, end: 8 },
                    Survivor { write: 4, first: 2, end: 3 },
                ],
                keeps: u64::MAX,
                rot: None,
                edited: None,
                gone: None
            })
        );
        assert_eq!(case.to_string(), TEXT);
    }

    #[test]
    fn what_is_no_case_is_refused_with_its_line() {
        let error = |text: &str| text.parse::<Case>().unwrap_err().to_string();
        assert_eq!(error(""), "line 1: found '', expected seekless crash 1");
        assert!(error("seekless crash 1\nwrite 0+8").starts_with("line 2: found 'write 0+8', expected run"));
        for bad in [
            "write 0+0",
            "read 0+8 fua",
            "crash x",
            "do",
            "do nothing",
            "snapshot 9",
            "clone 2 of",
            "write 18446744073709551615+8",
            "fail component 0 request 0",
        ] {
            let text = format!("seekless crash 1\n# a remark\nrun clients 1 seed 1\n{bad}");
            assert!(
                error(&text).starts_with(&format!("line 4: found '{bad}', expected read, write")),
                "{bad}"
            );
        }
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_text_panics(lines in proptest::collection::vec("[a-z0-9+: ]{0,30}|write [0-9]{1,20}\\+[0-9]{1,20}|crash [0-9]{1,22} [0-9]:[0-9]\\+[0-9]", 0..9)) {
            let text = format!("seekless crash 1\nrun clients 1 seed 1\n{}", lines.join("\n"));
            if let Ok(case) = text.parse::<Case>() {
                prop_assert_eq!(case.to_string().parse::<Case>().unwrap(), case);
            }
        }
    }
}
