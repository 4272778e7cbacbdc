//! Servers that a test starts for itself, on free ports and in temporary folders, and what stands before them to
//! make them fail.
//!
//! A server that cannot be started fails the test and says what to install. It ends with its test, and with the
//! test process however that ends.

mod certificates;
pub mod http;
mod in_process;
mod minio;
mod of_fleet;
mod ports;
pub mod proxy;
mod rabbitmq;
mod redis;
pub mod s3;
mod store;
mod supervised;
mod tcp_proxy;
mod turn;

pub use self::certificates::Certificates;
pub use self::minio::Minio;
pub use self::of_fleet::ServerOfFleet;
pub use self::ports::free_port;
pub use self::rabbitmq::RabbitMq;
pub use self::redis::Redis;
pub use self::store::Store;
pub use self::supervised::Supervised;
