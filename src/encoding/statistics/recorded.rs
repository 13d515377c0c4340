//! Statistics that note what the planner asks and is told, for tests that compare engines.

use std::cell::RefCell;
use std::fmt::Debug;

use super::{
    Answer, Child, CodedSample, PlannedParts, Prefixes, SampledBytes, SampledRuns, Statistics,
    TableOf,
};
use crate::encoding::alp_rd::{self, Cut};
use crate::encoding::dict::SampledValues;
use crate::encoding::lz::{LzBytes, Promise};
use crate::encoding::plan::{self, Context, Parameters, Plan};
use crate::encoding::{Encoding, Physical};
use crate::options::{Lz, PlanLog};

/// Plans values and notes what they answer, once nothing is missing.
pub(crate) fn plan(log: &PlanLog, values: &dyn Statistics, context: &Context<'_>) -> Answer<Plan> {
    let notes = RefCell::new(format!("{:?} of {}", values.physical(), values.rows()));
    let recorded = Recorded { values, notes: &notes, path: String::new() };
    let plan = plan::plan(&recorded, context)?;
    log.note(format!("{}\n{:?}", notes.into_inner(), plan.considered()));
    Ok(plan)
}

struct Recorded<'v, S> {
    values: S,
    notes: &'v RefCell<String>,
    path: String,
}

impl<'v, S> Recorded<'v, S> {
    /// Notes an answer, if there is one.
    fn note<T: Debug>(&self, what: &str, answer: Answer<T>) -> Answer<T> {
        if let Ok(answer) = &answer {
            self.notes.borrow_mut().push_str(&format!("\n{}{what}: {answer:?}", self.path));
        }
        answer
    }

    fn child<'c>(&self, name: &str, values: Child<'c>) -> Child<'c>
    where
        'v: 'c,
    {
        let path = format!("{}{name}.", self.path);
        Box::new(Recorded { values, notes: self.notes, path })
    }
}

impl<'v, S: std::ops::Deref<Target = dyn Statistics + 'v>> Statistics for Recorded<'v, S> {
    fn physical(&self) -> Physical {
        self.values.physical()
    }

    fn rows(&self) -> usize {
        self.values.rows()
    }

    fn single(&self) -> Answer<Option<usize>> {
        self.note("single", self.values.single())
    }

    fn widths(&self) -> Answer<usize> {
        self.note("widths", self.values.widths())
    }

    fn patched(&self) -> Answer<SampledBytes> {
        self.note("patched", self.values.patched())
    }

    fn divisor(&self) -> Answer<u64> {
        self.note("divisor", self.values.divisor())
    }

    fn decimals(&self) -> Answer<(SampledBytes, Parameters)> {
        let (sampled, parameters) = self.values.decimals()?;
        self.note("decimals", Ok(sampled))?;
        Ok((sampled, parameters))
    }

    /// Cuts above the limit are given up at different points.
    fn cut(&self, limit: usize) -> Answer<Option<(Cut, usize)>> {
        let cut = self.values.cut(limit)?;
        let promises = |(cut, cost): &(Cut, usize)| {
            alp_rd::estimate(*cut, *cost, self.vectors()).stored_bytes() < limit
        };
        self.note("cut", Ok(cut.filter(promises)))?;
        Ok(cut)
    }

    fn sampled_values(&self) -> Answer<Option<SampledValues>> {
        self.note("sampled values", self.values.sampled_values())
    }

    fn sampled_runs(&self) -> Answer<SampledRuns> {
        self.note("sampled runs", self.values.sampled_runs())
    }

    fn value_bytes(&self) -> Answer<usize> {
        self.note("value bytes", self.values.value_bytes())
    }

    fn lengths(&self) -> Answer<Child<'_>> {
        Ok(self.child("lengths", self.values.lengths()?))
    }

    fn coded(&self, by: TableOf) -> Answer<Option<CodedSample>> {
        let coded = self.values.coded(by)?;
        let parts = |coded: &CodedSample| (coded.sampled, coded.trained, coded.table);
        self.note(&format!("coded by {by:?}"), Ok(coded.as_ref().map(parts)))?;
        Ok(coded)
    }

    fn sampled_prefixes(&self) -> Answer<Option<Prefixes<'_>>> {
        let prefixes = self.values.sampled_prefixes()?;
        let parts = |prefixes: &Prefixes<'_>| (prefixes.saved, prefixes.bytes);
        self.note("prefixes", Ok(prefixes.as_ref().map(parts)))?;
        Ok(prefixes.map(|Prefixes { saved, bytes, lengths }| Prefixes {
            saved,
            bytes,
            lengths: self.child("sampled prefixes", lengths),
        }))
    }

    fn lz_bytes(&self, limit: usize) -> Answer<Option<LzBytes>> {
        self.note("lz bytes", self.values.lz_bytes(limit))
    }

    fn matches(&self, of: &LzBytes, settings: &Lz) -> Answer<Option<Promise>> {
        self.note("matches", self.values.matches(of, settings))
    }

    fn search(&self, encoding: Encoding, argument: u64) -> Answer<Option<usize>> {
        let found = self.values.search(encoding, argument);
        self.note(&format!("search for {encoding} by {argument}"), found)
    }

    fn children(&self, encoding: Encoding) -> Answer<Vec<Child<'_>>> {
        let children = self.values.children(encoding)?.into_iter().enumerate();
        let child = |(number, values)| self.child(&format!("{encoding} {number}"), values);
        Ok(children.map(child).collect())
    }

    /// Plans of parts have notes of their own.
    fn parts(&self, encoding: Encoding, context: &Context<'_>) -> Answer<Option<PlannedParts>> {
        self.values.parts(encoding, context)
    }

    fn parameters(&self, encoding: Encoding) -> Parameters {
        self.values.parameters(encoding)
    }
}
