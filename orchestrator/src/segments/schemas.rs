//! The columns of a result that is a Parquet file, whatever order mini-batches end in.
//!
//! They are those of all mini-batches that returned rows, by name in the order of their first appearance, each of a type
//! that holds what all of them have (`prs_tabular::parquet::write`). The headers of most are the same: each is understood
//! once.

use std::collections::HashMap;
use std::sync::Arc;

use prs_common::end_reason::EndReason;
use prs_common::mini_batch::MiniBatchIndex;
use prs_tabular::parquet::write::{FileSchema, FrameSchema, Misfit, unify};

/// The headers of the outcomes so far.
#[derive(Debug, Default)]
pub(crate) struct Schemas {
    /// Position in `frames` of each header.
    known: HashMap<String, usize>,
    frames: Vec<Frames>,
    /// Whether `unified` is of other frames.
    has_changed: bool,
    unified: Option<Result<Arc<FileSchema>, Unfit>>,
}

/// The mini-batches that have the same header.
#[derive(Debug)]
struct Frames {
    first: MiniBatchIndex,
    schema: Result<FrameSchema, String>,
}

impl Schemas {
    /// Takes in the header of a mini-batch that returned rows. What becomes of it is known after [`unify`](Self::unify).
    pub(crate) fn add(&mut self, index: MiniBatchIndex, header: String) {
        if let Some(position) = self.known.get(&header) {
            let frames = &mut self.frames[*position];
            if index < frames.first {
                frames.first = index;
                self.has_changed = true;
            }
            return;
        }
        let schema = FrameSchema::decode(&header).map_err(|error| error.to_string());
        self.known.insert(header, self.frames.len());
        self.frames.push(Frames { first: index, schema });
        self.has_changed = true;
    }

    /// Finds the columns of the file anew, where that is of use.
    pub(crate) fn unify(&mut self) {
        if !std::mem::take(&mut self.has_changed) {
            return;
        }
        self.put_in_order();
        self.unified = Some(self.unified_anew().map(Arc::new));
    }

    fn put_in_order(&mut self) {
        let mut order: Vec<usize> = (0..self.frames.len()).collect();
        order.sort_unstable_by_key(|position| self.frames[*position].first);
        let mut places = vec![0; order.len()];
        for (place, position) in order.iter().enumerate() {
            places[*position] = place;
        }
        for position in self.known.values_mut() {
            *position = places[*position];
        }
        self.frames.sort_unstable_by_key(|frames| frames.first);
    }

    fn unified_anew(&self) -> Result<FileSchema, Unfit> {
        let (mut frames, mut unreadable) = (Vec::with_capacity(self.frames.len()), None);
        for Frames { first, schema } in &self.frames {
            match schema {
                Ok(schema) => frames.push((*first, schema)),
                Err(error) => {
                    unreadable =
                        Some(Unfit { at: Some(*first), reason: not_in_parquet(*first, error.clone()) });
                    break;
                }
            }
        }
        // What is wrong first in input order is told, whatever comes behind it.
        match (unify(&frames), unreadable) {
            (Err(misfit @ Misfit::Types { .. }), _) => Err(Unfit::of(misfit)),
            (_, Some(unreadable)) => Err(unreadable),
            (unified, None) => unified.map_err(Unfit::of),
        }
    }

    /// The columns of the file; nothing where no mini-batch returned rows, or no file can have those of all.
    pub(crate) fn unified(&self) -> Option<Arc<FileSchema>> {
        self.unified.as_ref()?.as_ref().ok().map(Arc::clone)
    }

    /// Why no file can have all rows; nothing where one can. Another mini-batch may bring a type that holds all values, as
    /// long as not all have their outcome.
    pub(crate) fn differ(&self) -> Option<EndReason> {
        Some(self.unfit()?.reason.clone())
    }

    /// The same, where no outcome that is still to come changes it: those before `end` are all known.
    pub(crate) fn differ_for_good(&self, end: usize) -> Option<EndReason> {
        let unfit = self.unfit()?;
        unfit.at.is_some_and(|at| at < end as MiniBatchIndex).then(|| unfit.reason.clone())
    }

    fn unfit(&self) -> Option<&Unfit> {
        self.unified.as_ref()?.as_ref().err()
    }
}

/// Why no file can have all rows.
#[derive(Debug, Clone)]
struct Unfit {
    /// The mini-batch up to which this is so, whatever those behind it return; nothing where one of them can change it.
    at: Option<MiniBatchIndex>,
    reason: EndReason,
}

impl Unfit {
    fn of(misfit: Misfit) -> Self {
        match misfit {
            Misfit::Types { column, first: (first, kind), later: (later, other) } => {
                Self { at: Some(later), reason: EndReason::TypesDiffer { column, first, kind, later, other } }
            }
            Misfit::Empty { column, first } => {
                let error = format!("column {column} has dicts without keys, which Parquet cannot have");
                Self { at: None, reason: not_in_parquet(first, error) }
            }
            Misfit::Refused { column, first, error } => {
                Self { at: None, reason: not_in_parquet(first, format!("column {column}: {error}")) }
            }
        }
    }
}

fn not_in_parquet(index: MiniBatchIndex, error: String) -> EndReason {
    EndReason::NotInParquet { index, error }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Headers of frames with one column `a`, as a process makes them.
    const INT: &str = "KLUv/WBQAGUGAMKLJSqgJ2kM/z/6/+LQ/9rayoIsSf6+vLP7y6196x297fvk5Z33J23tJkjYnQK/AfoRp/0HfgWAFOLktGL1K/7kx+Lx3hMXoyu3rXSw4cAn6lqUoEDGxmlIxtgW12HtuUZB16Kri1EHN6rDMV3LAmExyojweQsJjMG12Kjjb3D4k3L6lR/9A/IrCPpPnA44WeDE/+rRwZxzBhQAIMbekjS2ga05+5u7siZ+aSNMwtDodKVUi9o8lnlBzr6fjS0TY5Dvz/YvgoH83mLmAQ==";
    const UINT: &str = "KLUv/WBQAGUGACIMJiqQJ80Y///w7u6d9z+wLRjVMtNIEDDuJ9vu977IvyWFfKwmoc12cbeyOwX/vwGyOr3/wL8QaAWcVitev+JP/2PxgNCRbNGd63a+2GiiI5UpSlAwJeM0jdkY6+Q2zcHHKChTdJUt+uJKdbymTFkgsEUZMjpwIaExPCcZdfwNDr9KVn/yo39A/gRB/4nVAKcFTvy/Hh08z/MEEwBLCHrsBV/LNrB5da3903CoCcO4M6tSV2/zWOYFOft+NrZMjEG+P9u/CAbye4uZBw==";
    const FLOAT: &str = "KLUv/WBQAGUGAMKLJSqQJ80Y///w7u69353aFoxqmdFGDWCMIrktOz7NvyWFfKwmoc12cWNDS1L/H1J6f4J/AaAlcFqdeP2JPx1RRCB0JGN057qdLz6a6EhlixYYzG3ARfOYzbFObtMcfIyFskVXGaMvrlTIa8oWBQJj1CGjAxsJTeE5yVDIv8DwK2X1Kz/6huRXEvSPWB1wemDE/+vRwfM8TxQANkU8vfLYBr7mbGDd1TXxTxthE4aGJ11KCajNY5kX5Oz72dgyMQb5/mz/IhjI7y1mHg==";
    const TEXT: &str = "KLUv/WBIAGUGAFJMJimgJ2kM/z/6/+K3KmjayYLsd6RtciTbva3cjeq5yqyR86cje5PdRj5lp/+/Wu0/8CdKYgd8vFZOfuU/vnFoMAwk26I7F+6MjTanCfNZOA0ktTmdiIhgoHAW8z0L5ToPMjFxoM3pals0NiuVEZ82dyhoiz6ygRgF4ilEKBPK+BcY/sVeP/vTN6ifqfSPvAb4WGDk/+QTQRRFURMAM4VqLth+tr8ZIObW8sc6CSPfWVWpq7d5LPOCnH0/G1smxiDfn+1fBAP5vcXMAw==";

    fn of(headers: &[(u64, &str)]) -> Schemas {
        let mut schemas = Schemas::default();
        for (index, header) in headers {
            schemas.add(*index, (*header).to_owned());
            schemas.unify();
        }
        schemas
    }

    #[test]
    fn the_columns_are_the_same_whatever_order_mini_batches_end_in() {
        assert!(of(&[]).unified().is_none() && of(&[]).differ().is_none());
        let int = of(&[(3, INT), (1, INT)]).unified();
        let float = of(&[(2, FLOAT)]).unified();
        assert!(int.is_some() && float.is_some() && int != float);
        for order in [[(0, INT), (1, FLOAT), (2, INT)], [(2, INT), (1, FLOAT), (0, INT)]] {
            let both = of(&order);
            assert_eq!(both.differ(), None);
            assert_eq!(both.unified(), float);
        }
    }

    #[test]
    fn a_misfit_is_for_good_once_all_before_it_are_known() {
        let fits = [(0, UINT), (1, FLOAT), (2, INT)];
        let differs = [(0, UINT), (1, INT), (2, FLOAT)];
        let damaged = [(0, INT), (1, "rubbish"), (2, TEXT)];
        let orders = [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]];
        for (headers, at) in [(fits, None), (differs, Some(1)), (damaged, Some(1))] {
            for order in orders {
                let mut schemas = Schemas::default();
                let mut known = [false; 3];
                for index in order {
                    known[index] = true;
                    schemas.add(headers[index].0, headers[index].1.to_owned());
                    schemas.unify();
                    let end = known.iter().take_while(|is_known| **is_known).count();
                    let is_final = at.is_some_and(|at| at < end);
                    assert_eq!(schemas.differ_for_good(end).is_some(), is_final, "{headers:?} {order:?}");
                }
                assert_eq!(schemas.differ(), schemas.differ_for_good(3));
            }
        }
        // Nothing behind it says how the job ends.
        let first = of(&[(0, INT), (1, TEXT), (2, "rubbish")]).differ();
        assert_eq!(first, of(&[(0, INT), (1, TEXT)]).differ());
    }

    #[test]
    fn the_first_that_do_not_fit_are_named() {
        let expected = "column a is of type int64 in mini-batch 1 and of type string in mini-batch 4,";
        for order in [[(9, INT), (4, TEXT), (1, INT), (7, TEXT)], [(7, TEXT), (9, INT), (1, INT), (4, TEXT)]]
        {
            let schemas = of(&order);
            assert_eq!(schemas.unified(), None);
            let differ = schemas.differ().unwrap().to_string();
            assert!(differ.contains(expected), "{differ}");
        }
        let damaged = of(&[(5, INT), (3, "rubbish")]).differ().unwrap().to_string();
        assert!(damaged.contains("the rows of mini-batch 3 cannot be written as Parquet"), "{damaged}");
    }
}
