//! How the server is reached and who asks: what the environment and the profile in use say, and the client made from it.
//!
//! Credentials come from where the AWS tools look: variables, the profile files, a web identity, the container,
//! the machine. The last of these is asked once and briefly: a laptop has nobody there who answers.

use std::path::PathBuf;
use std::time::Duration;

use aws_config::default_provider::credentials::DefaultCredentialsChain;
use aws_config::environment::EnvironmentVariableRegionProvider;
use aws_config::imds;
use aws_config::meta::region::RegionProviderChain;
use aws_config::profile::{ProfileFileCredentialsProvider, ProfileFileRegionProvider};
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
use crate::storage::s3_options::{GIVEN, OF_BUCKETS, S3Credentials, S3Options};

use super::failure::S3Failure;

const CONNECT: Duration = Duration::from_secs(5);
/// How long credentials are looked for.
const LOOK_FOR_CREDENTIALS: Duration = Duration::from_secs(10);
/// How long the machine's metadata service may take; where there is one it takes milliseconds.
const METADATA: Duration = Duration::from_secs(1);

impl S3Options {
    /// How `bucket` is reached: as was [set](Self::set_for_buckets) for it, and else as [the environment
    /// says](Self::from_environment). Fails with what is wrong there.
    pub fn of_bucket(bucket: &str) -> Result<Self, String> {
        let own = OF_BUCKETS.get().and_then(|buckets| buckets.get(bucket));
        Self::from_environment().map(|usual| own.map_or(usual.clone(), |own| own.over(usual)))
    }

    /// These, and `usual` where they say nothing.
    fn over(&self, usual: Self) -> Self {
        let own = self.clone();
        Self {
            endpoint: own.endpoint.or(usual.endpoint),
            region: own.region.or(usual.region),
            is_profile_alone: own.aws_profile.is_some(),
            aws_profile: own.aws_profile.or(usual.aws_profile),
            virtual_host: own.virtual_host.or(usual.virtual_host),
            certificates: own.certificates.or(usual.certificates),
            credentials: own.credentials.or(usual.credentials),
            anonymous: own.anonymous,
            refusal_patience: own.refusal_patience.or(usual.refusal_patience),
        }
    }

    /// What the environment says: `AWS_ENDPOINT_URL_S3` or `AWS_ENDPOINT_URL`, `AWS_REGION`, `AWS_CA_BUNDLE`,
    /// `PRS_S3_VIRTUAL_HOST=true` and `PRS_REFUSAL_PATIENCE` (seconds); and what was [set](Self::set), where a
    /// variable is not. Credentials are looked up when the store is opened. Fails with what is wrong.
    pub fn from_environment() -> Result<Self, String> {
        let variable = |name| std::env::var(name).ok().filter(|value| !value.is_empty());
        let given = GIVEN.get().cloned().unwrap_or_default();
        let virtual_host = match variable("PRS_S3_VIRTUAL_HOST").as_deref() {
            None => given.virtual_host,
            Some("false") => Some(false),
            Some("true") => Some(true),
            Some(other) => return Err(format!("PRS_S3_VIRTUAL_HOST must be true or false, not {other:?}")),
        };
        let endpoint = variable("AWS_ENDPOINT_URL_S3").or_else(|| variable("AWS_ENDPOINT_URL"));
        Ok(Self {
            endpoint: endpoint.or(given.endpoint),
            region: variable("AWS_REGION").or(given.region),
            aws_profile: given.aws_profile.filter(|_| variable("AWS_PROFILE").is_none()),
            virtual_host,
            certificates: variable("AWS_CA_BUNDLE").map(PathBuf::from).or(given.certificates),
            credentials: None,
            anonymous: false,
            is_profile_alone: false,
            refusal_patience: Some(refusals::patience()?),
        })
    }
}

/// A client for what `options` say.
pub(super) async fn connect(options: &S3Options) -> Result<Client, S3Failure> {
    let http = http_client(options)?;
    options.endpoint.as_deref().map_or(Ok(()), check_endpoint)?;
    let region = region(options).await;
    let credentials = if options.anonymous {
        None
    } else {
        Some(credentials(options, http.clone(), region.clone()).await?)
    };
    let mut config = aws_sdk_s3::Config::builder()
        .behavior_version(BehaviorVersion::latest())
        .http_client(http)
        .region(region)
        .force_path_style(options.endpoint.is_some() && options.virtual_host != Some(true))
        // Attempts, and how long they may take, are decided in `retry`.
        .retry_config(RetryConfig::disabled())
        .timeout_config(TimeoutConfig::builder().connect_timeout(CONNECT).build())
        // It would also end answers that begin at once and say nothing while the server works, as those to a completion or
        // a copy of parts do; and it goes by the wall clock, so that nothing stalls while that is set back.
        .stalled_stream_protection(StalledStreamProtectionConfig::disabled())
        // Checksums that stand behind the body are beyond some servers, and any are beyond others (`answers`).
        .request_checksum_calculation(RequestChecksumCalculation::WhenRequired)
        .response_checksum_validation(ResponseChecksumValidation::WhenRequired);
    config.set_endpoint_url(options.endpoint.clone());
    if credentials.is_none() {
        config.set_allow_no_auth();
    }
    config.set_credentials_provider(credentials);
    Ok(Client::from_conf(config.build()))
}

async fn region(options: &S3Options) -> Region {
    let mut profile = ProfileFileRegionProvider::builder();
    if let Some(name) = &options.aws_profile {
        profile = profile.profile_name(name);
    }
    let named = RegionProviderChain::first_try(options.region.clone().map(Region::new))
        .or_else(EnvironmentVariableRegionProvider::new())
        .or_else(profile.build());
    named.region().await.unwrap_or_else(|| Region::from_static("us-east-1"))
}

async fn credentials(
    options: &S3Options,
    http: SharedHttpClient,
    region: Region,
) -> Result<SharedCredentialsProvider, S3Failure> {
    if let Some(S3Credentials { access_key, secret_key }) = &options.credentials {
        let given = Credentials::new(access_key, secret_key, None, None, "given");
        return Ok(SharedCredentialsProvider::new(given));
    }
    let config = ProviderConfig::default().with_http_client(http).with_region(Some(region.clone()));
    if let Some(profile) = options.aws_profile.as_ref().filter(|_| options.is_profile_alone) {
        let of_profile =
            ProfileFileCredentialsProvider::builder().configure(&config).profile_name(profile).build();
        let given = tokio::time::timeout(LOOK_FOR_CREDENTIALS, of_profile.provide_credentials()).await;
        return match given {
            Ok(Ok(_)) => Ok(SharedCredentialsProvider::new(of_profile)),
            why => {
                let why = why.map_or("no answer".to_owned(), |given| {
                    given.err().map(|error| error.to_string()).unwrap_or_default()
                });
                let message = format!("the profile {profile} of the AWS tools gives no credentials: {why}");
                Err(S3Failure::of(StorageErrorKind::PermissionDenied, message))
            }
        };
    }
    let machine = imds::Client::builder()
        .configure(&config)
        .max_attempts(1)
        .connect_timeout(METADATA)
        .read_timeout(METADATA)
        .operation_timeout(2 * METADATA)
        .build();
    let mut chain = DefaultCredentialsChain::builder().configure(config).region(region).imds_client(machine);
    if let Some(profile) = &options.aws_profile {
        chain = chain.profile_name(profile);
    }
    let chain = chain.build().await;
    let why = match tokio::time::timeout(LOOK_FOR_CREDENTIALS, chain.provide_credentials()).await {
        Ok(Ok(_)) => return Ok(SharedCredentialsProvider::new(chain)),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("nobody gave any within {} s", LOOK_FOR_CREDENTIALS.as_secs()),
    };
    let remedy = "set AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, or AWS_PROFILE";
    Err(S3Failure::of(StorageErrorKind::PermissionDenied, format!("no credentials: {why}; {remedy}")))
}

fn http_client(options: &S3Options) -> Result<SharedHttpClient, S3Failure> {
    let malformed = |message: String| S3Failure::of(StorageErrorKind::PermissionDenied, message);
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
fn check_endpoint(endpoint: &str) -> Result<(), S3Failure> {
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
    Err(S3Failure::of(StorageErrorKind::InvalidKey, message))
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
}
