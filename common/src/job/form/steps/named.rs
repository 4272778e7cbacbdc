//! Values under names, in their order, which are found without a walk: a hostile file names each of very many.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use crate::near_name::{Few, few};

/// Values under names.
#[derive(Debug, Clone)]
pub(super) struct Named<T> {
    all: Vec<(String, T)>,
    places: HashMap<String, usize>,
}

impl<T> Named<T> {
    /// Adds one at the end, unless there is one of that name.
    pub(super) fn add(&mut self, name: String, value: T) {
        if let Entry::Vacant(place) = self.places.entry(name.clone()) {
            place.insert(self.all.len());
            self.all.push((name, value));
        }
    }

    pub(super) fn get(&self, name: &str) -> Option<&T> {
        self.places.get(name).map(|at| &self.all[*at].1)
    }

    pub(super) fn names(&self) -> Few<'_> {
        few(self.all.iter().map(|(name, _)| &**name))
    }

    pub(super) fn into_all(self) -> Vec<(String, T)> {
        self.all
    }
}

impl<T> Default for Named<T> {
    fn default() -> Self {
        Self { all: Vec::new(), places: HashMap::new() }
    }
}

impl<T> FromIterator<(String, T)> for Named<T> {
    fn from_iter<I: IntoIterator<Item = (String, T)>>(values: I) -> Self {
        let mut named = Self::default();
        values.into_iter().for_each(|(name, value)| named.add(name, value));
        named
    }
}
