//! Which storage it is: a name that it is given once, so that programs notice when their servers do not belong together.

use super::{PutMode, Storage, StorageError, StorageErrorKind, StorageExt};

/// The object with the name.
const IDENTITY: &str = "identity";

/// The identity of the storage of a fleet: 32 hexadecimal digits, made by the first program that asks.
pub async fn identity(storage: &dyn Storage) -> Result<String, StorageError> {
    loop {
        match storage.get(IDENTITY).await {
            Ok(identity) => return Ok(String::from_utf8_lossy(&identity).trim().to_owned()),
            Err(error) if error.kind == StorageErrorKind::NotFound => {}
            Err(error) => return Err(error),
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).expect("the system gives random bytes");
        let identity = crate::hexadecimal(&random);
        match storage.put(IDENTITY, identity.clone().into(), PutMode::Create).await {
            Ok(_) => return Ok(identity),
            Err(error) if error.kind == StorageErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether the storage of a fleet has an identity. One that had it and has none any more is not the same: a folder that is not mounted is
/// there, and empty.
pub async fn has_identity(storage: &dyn Storage) -> Result<bool, StorageError> {
    match storage.head(IDENTITY).await {
        Ok(_) => Ok(true),
        Err(error) if error.kind == StorageErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::super::LocalStorage;
    use super::*;

    #[tokio::test]
    async fn every_program_hears_the_same() {
        let folder = tempfile::tempdir().unwrap();
        let storage = LocalStorage::new(folder.path());
        assert!(!has_identity(&storage).await.unwrap());
        let (one, other) = tokio::join!(identity(&storage), identity(&storage));
        let identity = one.unwrap();
        assert_eq!(identity.len(), 32);
        assert_eq!(other.unwrap(), identity);
        assert!(has_identity(&storage).await.unwrap());
        let elsewhere = tempfile::tempdir().unwrap();
        assert_ne!(self::identity(&LocalStorage::new(elsewhere.path())).await.unwrap(), identity);
    }
}
