//! The provider: what it says of itself, and what it says of who signs in, which is checked (signature, `iss`, `aud`, `exp`, `nonce`,
//! `azp`). Its keys are asked for again where one is not known.

use std::sync::Arc;
use std::time::{Duration, Instant};

use futures_util::FutureExt;
use futures_util::future::BoxFuture;
use openidconnect::core::{
    CoreAuthDisplay, CoreAuthPrompt, CoreAuthenticationFlow, CoreErrorResponseType, CoreGenderClaim,
    CoreJsonWebKey, CoreJweContentEncryptionAlgorithm, CoreJwsSigningAlgorithm, CoreProviderMetadata,
    CoreRevocableToken, CoreRevocationErrorResponse, CoreTokenIntrospectionResponse, CoreTokenType,
};
use openidconnect::{
    AccessTokenHash, AdditionalClaims, AsyncHttpClient, AuthorizationCode, ClaimsVerificationError, Client,
    ClientId, ClientSecret, CsrfToken, EmptyExtraTokenFields, EndpointMaybeSet, EndpointNotSet, EndpointSet,
    HttpRequest, HttpResponse, IdTokenFields, IssuerUrl, Nonce, OAuth2TokenResponse, PkceCodeChallenge,
    PkceCodeVerifier, RedirectUrl, Scope, SignatureVerificationError, StandardErrorResponse,
    StandardTokenResponse, TokenResponse, http,
};
use prs_common::storage::HttpClient;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value};
use tokio::sync::Mutex;
use tracing::info;
use url::Url;

use super::{Awaited, Known, OidcOptions, Refused, is_safe};

/// How long what the provider says of itself is believed.
const BELIEVED: Duration = Duration::from_hours(1);
/// Between two times that its keys are asked for because one is not known.
const KEYS_AGAIN: Duration = Duration::from_secs(10);
/// Signatures that are taken: those by a key that the provider alone has.
const SIGNATURES: [CoreJwsSigningAlgorithm; 9] = [
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha256,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha384,
    CoreJwsSigningAlgorithm::RsaSsaPkcs1V15Sha512,
    CoreJwsSigningAlgorithm::RsaSsaPssSha256,
    CoreJwsSigningAlgorithm::RsaSsaPssSha384,
    CoreJwsSigningAlgorithm::RsaSsaPssSha512,
    CoreJwsSigningAlgorithm::EcdsaP256Sha256,
    CoreJwsSigningAlgorithm::EcdsaP384Sha384,
    CoreJwsSigningAlgorithm::EdDsa,
];

/// What a token says beside what the standard knows.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Further(Map<String, Value>);

impl AdditionalClaims for Further {}

type Fields = IdTokenFields<
    Further,
    EmptyExtraTokenFields,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJwsSigningAlgorithm,
>;
type Tokens = StandardTokenResponse<Fields, CoreTokenType>;
/// This server at the provider.
type Own = Client<
    Further,
    CoreAuthDisplay,
    CoreGenderClaim,
    CoreJweContentEncryptionAlgorithm,
    CoreJsonWebKey,
    CoreAuthPrompt,
    StandardErrorResponse<CoreErrorResponseType>,
    Tokens,
    CoreTokenIntrospectionResponse,
    CoreRevocableToken,
    CoreRevocationErrorResponse,
    EndpointSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointNotSet,
    EndpointMaybeSet,
    EndpointMaybeSet,
>;

/// The provider.
#[derive(Debug)]
pub(crate) struct Provider {
    options: OidcOptions,
    redirect: RedirectUrl,
    asking: Asking,
    /// What it said of itself last, and when.
    said: Mutex<Option<(Instant, Arc<CoreProviderMetadata>)>>,
}

/// Why a request did not come to an answer.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
struct NoAnswer(String);

impl Provider {
    /// The provider that is meant, which sends browsers back to `redirect`. Asks it nothing yet.
    #[expect(clippy::unnecessary_wraps, reason = "the other one is never there")]
    pub(crate) fn new(options: OidcOptions, redirect: Url) -> Option<Self> {
        Some(Self {
            options,
            redirect: RedirectUrl::from_url(redirect),
            asking: Asking::default(),
            said: Mutex::default(),
        })
    }

    /// What people call it.
    pub(crate) fn name(&self) -> &str {
        &self.options.name
    }

    /// Where a browser goes to sign in.
    pub(crate) async fn begin(&self, awaited: &Awaited) -> Result<String, Refused> {
        let own = self.own(None).await?;
        let verifier = PkceCodeVerifier::new(awaited.verifier.clone());
        let (state, nonce) = (awaited.state.clone(), awaited.nonce.clone());
        let asked = own.authorize_url(
            CoreAuthenticationFlow::AuthorizationCode,
            || CsrfToken::new(state),
            || Nonce::new(nonce),
        );
        let asked = asked
            .add_scope(Scope::new("profile".to_owned()))
            .add_scope(Scope::new("email".to_owned()))
            .set_pkce_challenge(PkceCodeChallenge::from_code_verifier_sha256(&verifier));
        let (url, ..) = asked.url();
        Ok(url.into())
    }

    /// Who a browser is that came back with `code`.
    pub(crate) async fn end(&self, code: &str, awaited: &Awaited) -> Result<Known, Refused> {
        let own = self.own(None).await?;
        let away = |error: &dyn std::fmt::Display| Refused::Away(error.to_string());
        let asked =
            own.exchange_code(AuthorizationCode::new(code.to_owned())).map_err(|error| away(&error))?;
        let asked = asked.set_pkce_verifier(PkceCodeVerifier::new(awaited.verifier.clone()));
        let tokens = asked.request_async(&self.asking).await.map_err(|error| match error {
            openidconnect::RequestTokenError::ServerResponse(said) => Refused::Untrue(said.to_string()),
            openidconnect::RequestTokenError::Request(error) => Refused::Away(error.to_string()),
            other => Refused::Away(other.to_string()),
        })?;
        let nonce = Nonce::new(awaited.nonce.clone());
        match self.judge(&own, &tokens, &nonce) {
            // It may have new keys.
            Err(ClaimsVerificationError::SignatureVerification(
                SignatureVerificationError::NoMatchingKey | SignatureVerificationError::CryptoError(_),
            )) => {
                info!("the identity provider is asked for its keys again");
                let own = self.own(Some(KEYS_AGAIN)).await?;
                self.judge(&own, &tokens, &nonce)
            }
            judged => judged,
        }
        .map_err(|error| Refused::Untrue(words(&error)))
    }

    /// Who the tokens are about, where all holds that they say.
    fn judge(&self, own: &Own, tokens: &Tokens, nonce: &Nonce) -> Result<Known, ClaimsVerificationError> {
        let other = |why: &str| ClaimsVerificationError::Other(why.to_owned());
        let token = tokens.id_token().ok_or_else(|| other("there is no ID token in its answer"))?;
        let verifier = own.id_token_verifier().set_allowed_algs(SIGNATURES);
        let claims = token.claims(&verifier, nonce)?;
        // The library leaves this to its users.
        let is_own = match claims.authorized_party() {
            Some(party) => party.as_str() == self.options.client_id,
            None => claims.audiences().len() == 1,
        };
        if !is_own {
            return Err(ClaimsVerificationError::InvalidAudience(
                "it was made for another client".to_owned(),
            ));
        }
        if let Some(expected) = claims.access_token_hash() {
            let key = token.signing_key(&verifier).map_err(ClaimsVerificationError::SignatureVerification)?;
            let algorithm = token.signing_alg().map_err(ClaimsVerificationError::SignatureVerification)?;
            let found = AccessTokenHash::from_token(tokens.access_token(), algorithm, key);
            if found.map_err(|error| other(&error.to_string()))? != *expected {
                return Err(other("the access token is of another user"));
            }
        }
        let subject = claims.subject().to_string();
        let name = claims.preferred_username().map(|name| name.to_string());
        let name = name.or_else(|| claims.email().map(|email| email.to_string()));
        let groups = groups(claims.additional_claims().0.get(&self.options.groups_claim));
        Ok(Known { name: name.unwrap_or_else(|| subject.clone()), subject, groups })
    }

    /// This server at the provider, by what that said of itself: no longer ago than `at_most`, or an hour.
    async fn own(&self, at_most: Option<Duration>) -> Result<Own, Refused> {
        let said = self.said(at_most.unwrap_or(BELIEVED)).await?;
        let OidcOptions { client_id, client_secret, .. } = &self.options;
        let own = Client::from_provider_metadata(
            (*said).clone(),
            ClientId::new(client_id.clone()),
            client_secret.clone().map(ClientSecret::new),
        );
        Ok(own.set_redirect_uri(self.redirect.clone()))
    }

    async fn said(&self, at_most: Duration) -> Result<Arc<CoreProviderMetadata>, Refused> {
        // Who comes meanwhile waits for the one look.
        let mut kept = self.said.lock().await;
        if let Some((_, said)) = kept.as_ref().filter(|(at, _)| at.elapsed() < at_most) {
            return Ok(Arc::clone(said));
        }
        let away = |error: &dyn std::error::Error| Refused::Away(words(error));
        let issuer = IssuerUrl::new(self.options.issuer.to_string().trim_end_matches('/').to_owned());
        let issuer = issuer.map_err(|error| away(&error))?;
        let found = CoreProviderMetadata::discover_async(issuer, &self.asking).await;
        let said = Arc::new(found.map_err(|error| away(&error))?);
        *kept = Some((Instant::now(), Arc::clone(&said)));
        Ok(said)
    }
}

/// Asks the provider. A future of its own type, for a closure would not be one for every lifetime.
#[derive(Debug, Default)]
struct Asking(HttpClient);

impl<'c> AsyncHttpClient<'c> for Asking {
    type Error = NoAnswer;
    type Future = BoxFuture<'c, Result<HttpResponse, NoAnswer>>;

    fn call(&'c self, request: HttpRequest) -> Self::Future {
        self.ask(request).boxed()
    }
}

impl Asking {
    async fn ask(&self, request: HttpRequest) -> Result<HttpResponse, NoAnswer> {
        let (parts, body) = request.into_parts();
        let url = parts.uri.to_string();
        if !Url::parse(&url).is_ok_and(|url| is_safe(&url)) {
            return Err(NoAnswer(format!("{url} is not encrypted")));
        }
        let text = |value: &http::HeaderValue| value.to_str().unwrap_or_default().to_owned();
        let headers: Vec<(String, String)> =
            parts.headers.iter().map(|(name, value)| (name.to_string(), text(value))).collect();
        let answer = self.0.ask(parts.method.as_str(), &url, &headers, body).await.map_err(NoAnswer)?;
        let mut response = http::Response::builder().status(answer.status);
        for (name, value) in &answer.headers {
            response = response.header(name, value);
        }
        response.body(answer.body.to_vec()).map_err(|error| NoAnswer(error.to_string()))
    }
}

/// The groups in a claim: one text, or a list of them.
fn groups(claim: Option<&Value>) -> Vec<String> {
    match claim {
        Some(Value::String(group)) => vec![group.clone()],
        Some(Value::Array(groups)) => groups.iter().filter_map(Value::as_str).map(str::to_owned).collect(),
        _ => Vec::new(),
    }
}

/// An error with what caused it.
fn words(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text = format!("{text}: {next}");
        cause = next.source();
    }
    text
}
