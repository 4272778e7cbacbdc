//! What can be said to `endpoint`, `deployment` and `invoke`: batch endpoints. The options are those of `az ml`.

use std::path::PathBuf;

use clap::{Args, Subcommand};
use prs_common::job::Invocation;

use super::azure::OfAzure;
use super::jobs::WhereaboutsArguments;
use super::run::OfDeployment;
use super::values::key_value;

/// Create, change and call batch endpoints: stable names, behind which deployments stand.
#[derive(Debug, Args)]
pub(crate) struct Endpoint {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: EndpointCommand,
    #[command(flatten)]
    pub(crate) azure: OfAzure,
}

/// What to do with endpoints.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum EndpointCommand {
    /// Create an endpoint.
    Create(CreateEndpoint),
    /// Change the description, the tags or the default deployment.
    Update(UpdateEndpoint),
    /// Show an endpoint, and where it is called.
    Show(NamedEndpoint),
    /// List the endpoints.
    List(ListEndpoints),
    /// Delete an endpoint with its deployments. Its jobs go on, and stay.
    Delete(DeleteEndpoint),
    /// List the jobs that calls of an endpoint were, the newest first.
    ListJobs(NamedEndpoint),
    /// Call an endpoint: run its deployment on data.
    Invoke(Box<InvokeNamed>),
}

impl EndpointCommand {
    pub(super) fn whereabouts_mut(&mut self) -> &mut WhereaboutsArguments {
        match self {
            Self::Create(CreateEndpoint { whereabouts, .. })
            | Self::Update(UpdateEndpoint { whereabouts, .. })
            | Self::Show(NamedEndpoint { whereabouts, .. })
            | Self::ListJobs(NamedEndpoint { whereabouts, .. })
            | Self::List(ListEndpoints { whereabouts, .. })
            | Self::Delete(DeleteEndpoint { whereabouts, .. }) => whereabouts,
            Self::Invoke(invoke) => &mut invoke.call.whereabouts,
        }
    }
}

/// Create an endpoint.
#[derive(Debug, Args)]
pub(crate) struct CreateEndpoint {
    /// YAML file with name, description, tags and defaults; the options count before it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Its name: 3 to 32 letters, digits and `-`.
    #[arg(short, long)]
    pub(crate) name: Option<String>,
    /// Replace what is said of an endpoint of this name; its deployments and jobs stay.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Override a key of the file; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, num_args = 1..)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Change an endpoint.
#[derive(Debug, Args)]
pub(crate) struct UpdateEndpoint {
    /// YAML file with description, tags and defaults; the options count before it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Its name.
    #[arg(short, long)]
    pub(crate) name: Option<String>,
    /// The deployment that answers where a call names none.
    #[arg(long = "default", value_name = "DEPLOYMENT")]
    pub(crate) default_deployment: Option<String>,
    /// description, tags.NAME or `defaults.deployment_name`; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, num_args = 1..)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// An endpoint.
#[derive(Debug, Args)]
pub(crate) struct NamedEndpoint {
    /// Its name.
    #[arg(short, long)]
    pub(crate) name: String,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// List the endpoints.
#[derive(Debug, Args)]
pub(crate) struct ListEndpoints {
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Delete an endpoint.
#[derive(Debug, Args)]
pub(crate) struct DeleteEndpoint {
    /// Its name.
    #[arg(short, long)]
    pub(crate) name: String,
    /// Do not ask.
    #[arg(short, long)]
    pub(crate) yes: bool,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Create, change and delete the deployments of batch endpoints.
#[derive(Debug, Args)]
pub(crate) struct Deployment {
    /// What to do.
    #[command(subcommand)]
    pub(crate) command: DeploymentCommand,
    #[command(flatten)]
    pub(crate) azure: OfAzure,
}

/// What to do with deployments.
#[derive(Debug, Subcommand)]
#[command(disable_help_subcommand = true)]
pub(crate) enum DeploymentCommand {
    /// Create a deployment: its model, code and environment are kept with it.
    Create(CreateDeployment),
    /// Change a deployment; jobs that run keep what they began with.
    Update(UpdateDeployment),
    /// Show a deployment.
    Show(NamedDeployment),
    /// List the deployments of an endpoint.
    List(ListDeployments),
    /// Delete a deployment. Its jobs go on, and stay.
    Delete(DeleteDeployment),
    /// List the jobs that a deployment ran, the newest first.
    ListJobs(NamedDeployment),
}

impl DeploymentCommand {
    pub(super) fn whereabouts_mut(&mut self) -> &mut WhereaboutsArguments {
        match self {
            Self::Create(CreateDeployment { whereabouts, .. })
            | Self::Update(UpdateDeployment { meant: NamedDeployment { whereabouts, .. }, .. })
            | Self::Show(NamedDeployment { whereabouts, .. })
            | Self::ListJobs(NamedDeployment { whereabouts, .. })
            | Self::List(ListDeployments { whereabouts, .. })
            | Self::Delete(DeleteDeployment { meant: NamedDeployment { whereabouts, .. }, .. }) => {
                whereabouts
            }
        }
    }
}

/// Create a deployment.
#[derive(Debug, Args)]
pub(crate) struct CreateDeployment {
    /// YAML file of a batch deployment; the options count before it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: PathBuf,
    /// Its name: 3 to 32 letters, digits and `-`.
    #[arg(short, long)]
    pub(crate) name: Option<String>,
    /// The endpoint.
    #[arg(short, long = "endpoint-name", alias = "endpoint", value_name = "ENDPOINT")]
    pub(crate) endpoint_name: Option<String>,
    /// Make a new revision of a deployment of this name.
    #[arg(long)]
    pub(crate) overwrite: bool,
    /// Have it answer calls that name no deployment.
    #[arg(long)]
    pub(crate) set_default: bool,
    /// Do not look whether its script can be compiled.
    #[arg(long)]
    pub(crate) skip_script_validation: bool,
    /// Override a key of the file; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, num_args = 1..)]
    pub(crate) set: Vec<(String, String)>,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// A deployment.
#[derive(Debug, Args)]
pub(crate) struct NamedDeployment {
    /// Its name.
    #[arg(short, long)]
    pub(crate) name: String,
    /// The endpoint.
    #[arg(short, long = "endpoint-name", alias = "endpoint", value_name = "ENDPOINT")]
    pub(crate) endpoint_name: String,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Change a deployment.
#[derive(Debug, Args)]
pub(crate) struct UpdateDeployment {
    #[command(flatten)]
    pub(crate) meant: NamedDeployment,
    /// YAML file in the place of what it is made of; the options count before it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// Override a key; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, num_args = 1..)]
    pub(crate) set: Vec<(String, String)>,
}

/// List the deployments of an endpoint.
#[derive(Debug, Args)]
pub(crate) struct ListDeployments {
    /// The endpoint.
    #[arg(short, long = "endpoint-name", alias = "endpoint", value_name = "ENDPOINT")]
    pub(crate) endpoint_name: String,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Delete a deployment.
#[derive(Debug, Args)]
pub(crate) struct DeleteDeployment {
    #[command(flatten)]
    pub(crate) meant: NamedDeployment,
    /// Do not ask, also of the default deployment.
    #[arg(short, long)]
    pub(crate) yes: bool,
}

/// Call an endpoint: run its deployment on data.
#[derive(Debug, Args)]
pub(crate) struct Invoke {
    /// The endpoint.
    #[arg(value_name = "ENDPOINT")]
    pub(crate) endpoint: String,
    #[command(flatten)]
    pub(crate) call: Call,
}

/// The same, with the endpoint as an option.
#[derive(Debug, Args)]
pub(crate) struct InvokeNamed {
    /// The endpoint.
    #[arg(short = 'n', long = "name", value_name = "ENDPOINT")]
    pub(crate) endpoint: String,
    #[command(flatten)]
    pub(crate) call: Call,
}

/// What a call of an endpoint gives.
#[derive(Debug, Args)]
pub(crate) struct Call {
    /// The deployment [default: that of the endpoint].
    #[arg(short, long, value_name = "DEPLOYMENT")]
    pub(crate) deployment_name: Option<String>,
    /// YAML file with inputs, outputs, name and `experiment_name` of this call; the options count before it.
    #[arg(short, long, value_name = "FILE")]
    pub(crate) file: Option<PathBuf>,
    /// A setting, or an input by its name (inputs.NAME.path=PATH), of this call; may be given several times.
    #[arg(long, value_name = "KEY=VALUE", value_parser = key_value, num_args = 1..)]
    pub(crate) set: Vec<(String, String)>,
    /// Inputs by their names: a mapping in JSON, or NAME.path=PATH and NAME=VALUE; may be given several times.
    #[arg(long, value_name = "JSON", num_args = 1..)]
    pub(crate) inputs: Vec<String>,
    /// The same for outputs.
    #[arg(long, value_name = "JSON", num_args = 1..)]
    pub(crate) outputs: Vec<String>,
    /// On a fleet: wait for the end of the job.
    #[arg(long)]
    pub(crate) wait: bool,
    #[command(flatten)]
    pub(crate) older: OlderCall,
    #[command(flatten)]
    pub(crate) of_deployment: OfDeployment,
    #[command(flatten)]
    pub(crate) whereabouts: WhereaboutsArguments,
}

/// Other ways in which scripts for `az ml` say what the data of a call is.
#[derive(Debug, Args)]
pub(crate) struct OlderCall {
    /// `folder:URL` or `file:URL`.
    #[arg(long = "input-path", hide = true, conflicts_with_all = ["input", "input_type"])]
    of_type: Option<String>,
    /// A path of this machine.
    #[arg(long = "input-local-path", hide = true, conflicts_with_all = ["input", "of_type"])]
    local_path: Option<String>,
    /// `azureml:NAME:VERSION`.
    #[arg(long = "input-data", hide = true, conflicts_with_all = ["input", "of_type", "local_path"])]
    registered: Option<String>,
}

impl Call {
    /// What it says of one run.
    pub(crate) fn invocation(&self) -> Invocation {
        let mut invocation = self.of_deployment.invocation();
        let OlderCall { of_type, local_path, registered } = &self.older;
        if let Some(given) = of_type {
            let (kind, path) = match given.split_once(':') {
                Some(("folder", path)) => (Some("uri_folder"), path),
                Some(("file", path)) if !path.starts_with("//") => (Some("uri_file"), path),
                _ => (None, &**given),
            };
            invocation.input = Some(path.to_owned());
            invocation.input_type = kind.map(str::to_owned);
        }
        if let Some(given) = local_path.as_ref().or(registered.as_ref()) {
            invocation.input = Some(given.clone());
        }
        invocation
    }
}
