//! A server of a fleet: one of its own, or one that the tests of a program share.

use std::ops::{Deref, DerefMut};

/// A server that its fleet owns, or that tests share. A shared server is never given out to be changed.
#[derive(Debug)]
pub enum ServerOfFleet<T: ?Sized + 'static> {
    /// It ends with the fleet.
    Own(Box<T>),
    /// It ends with the program.
    Shared(&'static T),
}

impl<T: ?Sized> Deref for ServerOfFleet<T> {
    type Target = T;

    fn deref(&self) -> &T {
        match self {
            Self::Own(server) => server,
            Self::Shared(server) => server,
        }
    }
}

impl<T: ?Sized> DerefMut for ServerOfFleet<T> {
    fn deref_mut(&mut self) -> &mut T {
        match self {
            Self::Own(server) => server,
            Self::Shared(_) => {
                panic!("tests that kill or empty a server start a fleet of their own: Fleet::start")
            }
        }
    }
}
