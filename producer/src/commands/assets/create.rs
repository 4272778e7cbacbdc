//! `create`: a version of data, of a model, of an environment or of a component.

use std::sync::{Mutex, PoisonError};

use prs_common::registry::{AssetType, Kind};
use prs_jobs::assets::{self, NewVersion};
use prs_orchestrator::inputs::InputProgress;

use super::printed::print;
use crate::cli::{CreateAsset, CreateData, CreateFromFile, CreateModel, Format};
use crate::failure::Failure;
use crate::progress;

/// Creates a version of its file and options, and prints it.
async fn create(
    new: NewVersion<'_>,
    type_of: Option<AssetType>,
    path: Option<&str>,
    asset: &CreateAsset,
    format: Format,
) -> Result<(), Failure> {
    let new = NewVersion {
        set: &asset.set,
        name: asset.name.as_deref(),
        version: asset.version.as_deref(),
        type_of,
        path,
        description: asset.description.as_deref(),
        tags: &asset.tags,
        ..new
    };
    let (uploading, seen) = (progress::uploads(), Mutex::new(InputProgress::default()));
    let shown = asset.name.as_deref().unwrap_or(new.kind.noun());
    let sent = |bytes| {
        let mut seen = seen.lock().unwrap_or_else(PoisonError::into_inner);
        (seen.files, seen.bytes) = (seen.files + 1, seen.bytes + bytes);
        uploading.show(shown, *seen);
    };
    let made = Box::pin(assets::create(&new, &sent, &asset.whereabouts.settled()?)).await;
    uploading.end();
    print(made?.0, format)
}

/// Creates data.
pub(super) async fn data(arguments: CreateData, format: Format) -> Result<(), Failure> {
    let CreateData { file, kind, path, asset } = arguments;
    let new = NewVersion { file: file.as_deref(), ..NewVersion::of(Kind::Data) };
    create(new, kind, path.as_deref(), &asset, format).await
}

/// Creates a model.
pub(super) async fn model(arguments: CreateModel, format: Format) -> Result<(), Failure> {
    let CreateModel { file, kind, path, asset } = arguments;
    let new = NewVersion { file: file.as_deref(), ..NewVersion::of(Kind::Model) };
    create(new, kind, path.as_deref(), &asset, format).await
}

/// Creates an environment or a component.
pub(super) async fn from_file(kind: Kind, arguments: CreateFromFile, format: Format) -> Result<(), Failure> {
    let CreateFromFile { file, asset } = arguments;
    create(NewVersion { file: Some(&file), ..NewVersion::of(kind) }, None, None, &asset, format).await
}
