//! What can be said to `dataset`, `model`, `environment` and `component`: the registry. The options are those of `az ml`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use prs_common::registry::{AssetType, Kind};

use super::azure::OfAzure;
use super::jobs::WhereaboutsArguments;
use super::values::key_value;

/// Register data under names with versions, which job files name as `azureml:NAME:VERSION`.
#[derive(Debug, Args)]
pub(crate) struct Dataset {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: DatasetCommand,
    #[command(flatten)]
    pub(crate) azure: OfAzure,
}

/// What to do with registered data.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum DatasetCommand {
    /// Create a version. Local data is brought into the registry; data in a bucket stays there.
    #[command(disable_version_flag = true)]
    Create(CreateData),
    #[command(flatten)]
    Other(AssetCommand),
}

/// Register models under names with versions, which job files name as `azureml:NAME:VERSION`.
#[derive(Debug, Args)]
pub(crate) struct Model {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: ModelCommand,
    #[command(flatten)]
    pub(crate) azure: OfAzure,
}

/// What to do with registered models.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum ModelCommand {
    /// Create a version. Its files are brought into the registry, wherever they are.
    #[command(disable_version_flag = true)]
    Create(CreateModel),
    /// Copy a version to a folder of this machine.
    #[command(disable_version_flag = true)]
    Download(DownloadModel),
    #[command(flatten)]
    Other(AssetCommand),
}

/// Register environments under names with versions, which job files name as `azureml:NAME:VERSION`.
#[derive(Debug, Args)]
pub(crate) struct Environment {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: FileCommand,
    #[command(flatten)]
    pub(crate) azure: OfAzure,
}

/// Register components under names with versions, which pipelines name as `azureml:NAME:VERSION`.
#[derive(Debug, Args)]
pub(crate) struct Component {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: FileCommand,
    #[command(flatten)]
    pub(crate) azure: OfAzure,
}

/// What to do with what is registered by its file.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum FileCommand {
    /// Create a version. The files that it names are brought into the registry.
    #[command(disable_version_flag = true)]
    Create(CreateFromFile),
    #[command(flatten)]
    Other(AssetCommand),
}

/// What to do with whatever is registered.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum AssetCommand {
    /// List the names with their latest versions, or the versions of one.
    #[command(disable_version_flag = true)]
    List(ListAssets),
    /// Show a version, and where it is.
    #[command(disable_version_flag = true)]
    Show(ShowAsset),
    /// Change what people say of a version; what it holds does not change.
    #[command(disable_version_flag = true)]
    Update(UpdateAsset),
    /// Hide a version, or all of a name, from lists and from @latest. Who names it still gets it.
    #[command(disable_version_flag = true)]
    Archive(ChooseAssets),
    /// Take back that a version, or all of a name, was archived.
    #[command(disable_version_flag = true)]
    Restore(ChooseAssets),
}

impl AssetCommand {
    fn whereabouts_mut(&mut self) -> &mut WhereaboutsArguments {
        match self {
            Self::List(ListAssets { whereabouts, .. })
            | Self::Show(ShowAsset { whereabouts, .. })
            | Self::Update(UpdateAsset { whereabouts, .. })
            | Self::Archive(ChooseAssets { whereabouts, .. })
            | Self::Restore(ChooseAssets { whereabouts, .. }) => whereabouts,
        }
    }
}

impl DatasetCommand {
    pub(super) fn whereabouts_mut(&mut self) -> &mut WhereaboutsArguments {
        match self {
            Self::Create(create) => &mut create.asset.whereabouts,
            Self::Other(other) => other.whereabouts_mut(),
        }
    }
}

impl ModelCommand {
    pub(super) fn whereabouts_mut(&mut self) -> &mut WhereaboutsArguments {
        match self {
            Self::Create(create) => &mut create.asset.whereabouts,
            Self::Download(download) => &mut download.whereabouts,
            Self::Other(other) => other.whereabouts_mut(),
        }
    }
}

impl FileCommand {
    pub(super) fn whereabouts_mut(&mut self) -> &mut WhereaboutsArguments {
        match self {
            Self::Create(create) => &mut create.asset.whereabouts,
            Self::Other(other) => other.whereabouts_mut(),
        }
    }
}

/// What is said of any version that is created.
#[derive(Debug, Args)]
pub(crate) struct CreateAsset {
    /// Its name.
    #[arg(short, long)]
    pub(crate) name: Option<String>,
    /// Version [default: the next number].
    #[arg(long)]
    pub(crate) version: Option<String>,
    /// A text for people.
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// A tag; may be given several times.
    #[arg(long = "tag", alias = "tags", value_name = "KEY=VALUE", value_parser = key_value, num_args = 1..)]
    pub(crate) tags: Vec<(String, String)>,
    /// Override a key of the file; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, num_args = 1..)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Create a version of data.
#[derive(Debug, Args)]
pub(crate) struct CreateData {
    /// YAML file with name, version, type, path, description and tags; the options count before it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// `uri_file`, `uri_folder` or `mltable` [default: `uri_folder`].
    #[arg(long = "type", value_name = "TYPE", value_parser = data_type)]
    pub(crate) kind: Option<AssetType>,
    /// Where the data is: a file, a folder, an s3:// URL, an https:// URL of a file, or a reference.
    #[arg(long)]
    pub(crate) path: Option<String>,
    #[command(flatten)]
    pub(crate) asset: CreateAsset,
}

/// Create a version of a model.
#[derive(Debug, Args)]
pub(crate) struct CreateModel {
    /// YAML file with name, version, type, path, description, tags, properties, stage and flavors; the options count before
    /// it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// `custom_model`, `mlflow_model` or `triton_model` [default: `custom_model`].
    #[arg(long = "type", value_name = "TYPE", value_parser = model_type)]
    pub(crate) kind: Option<AssetType>,
    /// Where the model is: a file, a folder, an s3:// URL, or `azureml://jobs/JOB/outputs/OUTPUT/paths/PATH`.
    #[arg(long)]
    pub(crate) path: Option<String>,
    #[command(flatten)]
    pub(crate) asset: CreateAsset,
}

/// Create a version from its file.
#[derive(Debug, Args)]
pub(crate) struct CreateFromFile {
    /// YAML file that says what it is; the options count before it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    #[command(flatten)]
    pub(crate) asset: CreateAsset,
}

fn data_type(word: &str) -> Result<AssetType, String> {
    AssetType::parse(Kind::Data, word)
}

fn model_type(word: &str) -> Result<AssetType, String> {
    AssetType::parse(Kind::Model, word)
}

/// List what is registered.
#[derive(Debug, Args)]
pub(crate) struct ListAssets {
    /// All versions of this name.
    #[arg(short, long)]
    pub(crate) name: Option<String>,
    /// Archived versions, too.
    #[arg(long)]
    pub(crate) include_archived: bool,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Which version of a name is meant.
#[derive(Debug, Args)]
pub(crate) struct OneVersion {
    /// Its name.
    #[arg(short, long)]
    pub(crate) name: String,
    /// Its version [default: the latest].
    #[arg(long, conflicts_with = "label")]
    pub(crate) version: Option<String>,
    /// The version with this label: latest.
    #[arg(long)]
    pub(crate) label: Option<String>,
}

/// Show a version.
#[derive(Debug, Args)]
pub(crate) struct ShowAsset {
    #[command(flatten)]
    pub(crate) meant: OneVersion,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Change what people say of a version.
#[derive(Debug, Args)]
pub(crate) struct UpdateAsset {
    #[command(flatten)]
    pub(crate) meant: OneVersion,
    /// A text for people; empty for none.
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// A tag; may be given several times.
    #[arg(long = "tag", alias = "tags", value_name = "KEY=VALUE", value_parser = key_value, num_args = 1..)]
    pub(crate) tags: Vec<(String, String)>,
    /// description, stage, tags.NAME or properties.NAME; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, num_args = 1..)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Choose versions.
#[derive(Debug, Args)]
pub(crate) struct ChooseAssets {
    /// Their name.
    #[arg(short, long)]
    pub(crate) name: String,
    /// The version [default: all of them].
    #[arg(long)]
    pub(crate) version: Option<String>,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Copy a version of a model.
#[derive(Debug, Args)]
pub(crate) struct DownloadModel {
    #[command(flatten)]
    pub(crate) meant: OneVersion,
    /// The folder below which a folder NAME gets it [default: the current one].
    #[arg(short = 'p', long, value_name = "FOLDER")]
    pub(crate) download_path: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}
