//! How the server is reached and who asks: what the environment says, and the client made from it.
//!
//! Credentials come from where the AWS tools look: variables, the profile files, a web identity, the container,
//! the machine. The last of these is asked once and briefly: a laptop has nobody there who answers.

use std::fmt;
use std::path::PathBuf;
use std::time::Duration;

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::imds;
use aws_config::meta::region::ProvideRegion;
use aws_config::profile::ProfileFileRegionProvider;
use aws_config::provider_config::ProviderConfig;
use aws_sdk_s3::Client;
use aws_sdk_s3::config::retry::RetryConfig;
use aws_sdk_s3::config::timeout::TimeoutConfig;
use aws_sdk_s3::config::{
    BehaviorVersion, Credentials, ProvideCredentials, Region, RequestChecksumCalculation,
    ResponseChecksumValidation, SharedCredentialsProvider, SharedHttpClient, StalledStreamProtectionConfig,
};
use aws_smithy_http_client::tls;

use crate::refusals;
use crate::storage::StorageErrorKind;

use super::access::BucketAccess;
use super::failure::Failure;

const CONNECT: Duration = Duration::from_secs(5);
/// How long credentials are looked for.
const LOOK_FOR_CREDENTIALS: Duration = Duration::from_secs(10);
/// How long the machine's metadata service may take; where there is one it takes milliseconds.
const METADATA: Duration = Duration::from_secs(1);

/// How an S3 server is reached. Everything that is absent is looked up where the AWS tools look.
#[derive(Debug, Clone, Default)]
pub struct S3Options {
    /// The server's URL; absent for AWS itself.
    pub endpoint: Option<String>,
    /// The region that requests are signed for; `us-east-1` when nothing names one.
    pub region: Option<String>,
    /// Whether the bucket stands in the host name also at an endpoint of one's own, which otherwise has it in
    /// the path.
    pub virtual_host: bool,
    /// Who asks.
    pub credentials: Option<S3Credentials>,
    /// The profile of the AWS tools that credentials and region are taken from, where `AWS_PROFILE` names none.
    pub profile: Option<String>,
    /// A PEM file with certificates to trust beside those of the system.
    pub certificates: Option<PathBuf>,
    /// How long a refusal of what was accepted before may last before it counts as one; 5 minutes when nothing else is
    /// said.
    pub refusal_patience: Option<Duration>,
}

/// An access key and its secret, which no `Debug` shows.
#[derive(Clone)]
pub struct S3Credentials {
    /// The key's name.
    pub access_key: String,
    /// What proves that it is ours.
    pub secret_key: String,
}

impl fmt::Debug for S3Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("S3Credentials").finish_non_exhaustive()
    }
}

impl S3Options {
    /// What the environment says: `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_CA_BUNDLE`,
    /// `PRS_S3_VIRTUAL_HOST=true` and `PRS_REFUSAL_PATIENCE` (seconds); and what [`BucketAccess`] was set to, where a
    /// variable is not set. Credentials are looked up when the store is opened. Fails with what is wrong.
    pub fn from_environment() -> Result<Self, String> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let access = BucketAccess::get();
        let virtual_host = match variable("PRS_S3_VIRTUAL_HOST").as_deref() {
            None => access.virtual_host.unwrap_or_default(),
            Some("false") => false,
            Some("true") => true,
            Some(other) => return Err(format!("PRS_S3_VIRTUAL_HOST must be true or false, not {other:?}")),
        };
        Ok(Self {
            endpoint: variable("AWS_ENDPOINT_URL_S3")
                .or_else(|| variable("AWS_ENDPOINT_URL"))
                .or(access.endpoint),
            region: variable("AWS_REGION").or(access.region),
            virtual_host,
            credentials: None,
            profile: access.aws_profile.filter(|_| variable("AWS_PROFILE").is_none()),
            certificates: variable("AWS_CA_BUNDLE").map(PathBuf::from).or(access.certificates),
            refusal_patience: Some(refusals::patience()?),
        })
    }
}

/// A client for what `options` say, and the endpoint it talks to when that is not AWS.
pub(super) async fn connect(options: &S3Options) -> Result<(Client, Option<String>), Failure> {
    let http = http_client(options)?;
    let endpoint = options.endpoint.clone();
    if let Some(endpoint) = &endpoint {
        check_endpoint(endpoint)?;
    }
    let region = match &options.region {
        Some(region) => Region::new(region.clone()),
        None => region(options.profile.as_deref()).await,
    };
    let credentials = credentials(options, http.clone(), region.clone()).await?;
    let path_style = endpoint.is_some() && !options.virtual_host;
    let mut config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(http)
        .region(region)
        .credentials_provider(credentials)
        .force_path_style(path_style)
        // Attempts, and how long they may take, are decided in `retry`.
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT).build())
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        // Checksums that stand behind the body are beyond some servers.
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    config.set_endpoint_url(endpoint.clone());
    Ok((Client::from_conf(config.build()), endpoint))
}

async fn region(profile: Option<&str>) -> Region {
    if let Some(region) = EnvironmentVariableRegionProvider::new().region().await {
        return region;
    }
    let mut of_profile = ProfileFileRegionProvider::builder();
    if let Some(profile) = profile {
        of_profile = of_profile.profile_name(profile);
    }
    of_profile.build().region().await.unwrap_or_else(|| Region::from_static("us-east-1"))
}

async fn credentials(
    options: &S3Options,
    http: SharedHttpClient,
    region: Region,
) -> Result<SharedCredentialsProvider, Failure> {
    if let Some(S3Credentials { access_key, secret_key }) = &options.credentials {
        let given = Credentials::new(access_key, secret_key, None, None, "given");
        return Ok(SharedCredentialsProvider::new(given));
    }
    let config = ProviderConfig::default().with_http_client(http).with_region(Some(region.clone()));
    let machine = imds::Client::builder()
        .configure(&config)
        .max_attempts(1)
        .connect_timeout(METADATA)
        .read_timeout(METADATA)
        .operation_timeout(2 * METADATA)
        .build();
    let mut chain = DefaultCredentialsChain::builder().configure(config).region(region).imds_client(machine);
    if let Some(profile) = &options.profile {
        chain = chain.profile_name(profile);
    }
    let chain = chain.build().await;
    let refused = |why: String| {
        let remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";
        Failure::of(StorageErrorKind::PermissionDenied, format!("no credentials: {why}; {remedy}"))
    };
    match tokio::time::timeout(LOOK_FOR_CREDENTIALS, chain.provide_credentials()).await {
        Ok(Ok(_)) => Ok(SharedCredentialsProvider::new(chain)),
        Ok(Err(error)) => Err(refused(error.to_string())),
        Err(_) => Err(refused(format!("nobody gave any within {} s", LOOK_FOR_CREDENTIALS.as_secs()))),
    }
}

fn http_client(options: &S3Options) -> Result<SharedHttpClient, Failure> {
    let malformed = |message: String| Failure::of(StorageErrorKind::PermissionDenied, message);
    let mut trusted = tls::TrustStore::default();
    if let Some(file) = &options.certificates {
        let pem = std::fs::read(file)
            .map_err(|error| malformed(format!("AWS_CA_BUNDLE {}: {error}", file.display())))?;
        trusted = trusted.with_pem_certificate(pem);
    }
    let context = tls::TlsContext::builder().with_trust_store(trusted).build();
    let context = context.map_err(|error| malformed(error.to_string()))?;
    // Any number of connections: as many as there are requests side by side.
    let client = aws_smithy_http_client::Builder::new()
        .tls_provider(tls::Provider::Rustls(tls::rustls_provider::CryptoMode::Ring))
        .tls_context(context)
        .build_https();
    Ok(client)
}

/// The endpoint is printed in errors, so nothing secret may stand in it.
fn check_endpoint(endpoint: &str) -> Result<(), Failure> {
    let rest = endpoint.strip_prefix("http://").or_else(|| endpoint.strip_prefix("https://"));
    let why = match rest {
        None => "it must start with http:// or https://",
        Some(rest) if rest.is_empty() || rest.starts_with('/') => "it names no host",
        Some(rest) if rest.contains('@') => "credentials do not belong in it",
        Some(rest) if rest.contains(|letter: char| letter.is_whitespace() || letter.is_control()) => {
            "it must not hold white space"
        }
        Some(_) => return Ok(()),
    };
    let message = format!("the endpoint (AWS_ENDPOINT_URL_S3) is malformed: {why}");
    Err(Failure::of(StorageErrorKind::InvalidKey, message))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_checked_and_never_shown_with_a_password() {
        for good in ["http://127.0.0.1:9000", "https://s3.example.org", "https://host/path"] {
            check_endpoint(good).unwrap();
        }
        for bad in ["127.0.0.1:9000", "http://", "https:///x", "http://user:hidden@host", "http://a b"] {
            let failure = check_endpoint(bad).unwrap_err();
            assert_eq!(failure.kind, StorageErrorKind::InvalidKey);
            assert!(!failure.message.contains("hidden"));
        }
    }

    #[test]
    fn credentials_are_not_shown() {
        let credentials = S3Credentials { access_key: "hidden".into(), secret_key: "hidden".into() };
        let options = S3Options { credentials: Some(credentials), ..S3Options::default() };
        assert!(!format!("{options:?}").contains("hidden"));
    }
}
