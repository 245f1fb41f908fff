//! Runs the cases: the peers take turns, so that a slow minute of the machine is shared by all of them.

use std::{fs::File, io::Write};

use crate::{
    Error,
    args::{Compare, Serve},
    bounds,
    case::Case,
    child::Child,
    cores::{self, Cores},
    load::{Load, Sample},
    measure::raise_descriptor_limit,
    peers::Entry,
    report::{Row, json, table},
};

/// Runs and prints everything. False if a peer failed somewhere, or missed a bound by far; the others are measured all the
/// same.
pub(crate) fn run(options: &Compare) -> Result<bool, Error> {
    raise_descriptor_limit();
    let mut log =
        options.json.as_ref().map(|path| File::options().create(true).append(true).open(path)).transpose()?;
    let mut all_well = true;
    println!("{} cores, {} runs of {:?} each", cores::count(), options.runs, options.window);
    let cases = options.suite.cases(options.quick);
    let chosen = |case: &Case| case.to_string().contains(&options.case);
    if !cases.iter().any(chosen) {
        return Err(format!("no case has `{}` in its name", options.case).into());
    }
    for case in cases.into_iter().filter(chosen) {
        let rows = interleave(&case, options, &mut all_well);
        if rows.is_empty() {
            continue;
        }
        print!("\n{}", table(&case, &rows));
        for row in &rows {
            for missed in bounds::missed(&case, row.peer.name, &row.median) {
                all_well = false;
                eprintln!("{} in `{case}`: {missed}", row.peer.name);
            }
        }
        if let Some(log) = &mut log {
            rows.iter().try_for_each(|row| writeln!(log, "{}", json(&case, row)))?;
        }
    }
    Ok(all_well)
}

fn interleave(case: &Case, options: &Compare, all_well: &mut bool) -> Vec<Row> {
    let able = |peer: &&Entry| (peer.does)(case.work.suite());
    let mut rows: Vec<(&Entry, Vec<Sample>)> =
        options.peers.iter().copied().filter(able).map(|peer| (peer, Vec::new())).collect();
    for _ in 0..options.runs {
        for (peer, samples) in &mut rows {
            match once(case, peer, options) {
                Ok(sample) => samples.push(sample),
                Err(error) => {
                    *all_well = false;
                    eprintln!("{} failed in `{case}`: {error}", peer.name);
                }
            }
        }
    }
    rows.into_iter().filter_map(|(peer, samples)| Row::of(peer, &samples)).collect()
}

/// One window against a fresh server process.
fn once(case: &Case, peer: &'static Entry, options: &Compare) -> Result<Sample, Error> {
    let pin = |core| case.pinned.then_some(core);
    let serve = Serve { peer, flavour: case.flavour, suite: case.work.suite(), pin: pin(0) };
    let mut server = Child::start(&serve.to_args())?;
    let cores = Cores::start(case.flavour, pin(cores::count() - 1))?;
    (peer.measure)(&Load { case, cores: &cores, window: options.window }, &mut server)
}
