//! What all addresses have in common.
//!
//! | file | duty |
//! |---|---|
//! | `params` | parameters of an address: known ones alone, with the right values |
//! | `cors` | pages of other origins that may ask |
//! | `cursor` | where the next page of a list begins |
//! | `page` | a page of a list, and the address of the next |
//! | `paths` | paths that a request may name |
//! | `range` | which bytes of a file are asked for |
//! | `conditional` | whether who asks has the newest already |
//! | `expected` | what a request that changes something expects to be there |
//! | `json` | bodies of JSON |
//! | `addresses` | where requests come from |
//! | `rates` | how many requests come, from whom |
//! | `unread` | what becomes of a body that nobody read |
//! | `look` | how pages look to one reader |
//! | `hosts` | the names that the server answers to, and the origins that may change something |

pub(crate) mod addresses;
pub(crate) mod conditional;
pub(crate) mod cors;
pub(crate) mod cursor;
pub(crate) mod expected;
pub(crate) mod hosts;
pub(crate) mod json;
pub(crate) mod look;
pub(crate) mod page;
pub(crate) mod params;
pub(crate) mod paths;
pub(crate) mod range;
pub(crate) mod rates;
pub(crate) mod search;
pub(crate) mod unread;
