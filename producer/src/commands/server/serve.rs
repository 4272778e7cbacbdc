//! `serve`: jobs in a browser, and for programs over HTTP.

use std::ffi::OsString;
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::Context;
use prs_common::dataset::http_url;
use prs_jobs::Whereabouts;
use prs_jobs::intake::Program;
use prs_jobs::paths::shown;
use prs_jobs::records::Served;
use prs_server::{
    Direct, FirstToken, Limits, LinkError, Options, ServeError, Server, TlsFiles, ask_for_link,
};

use super::super::browser;
use crate::cli::server::Auth;
use crate::cli::{Format, Serve};
use crate::failure::{Code, Failure};
use crate::terminal::output;
use crate::terminal::signals::Signals;

/// The variable with a token that the server enters into the registry.
const FIRST_TOKEN: &str = "PRS_TOKEN";

/// Serves until Ctrl-C, SIGTERM or SIGHUP.
pub(crate) async fn serve(arguments: &Serve, format: Format) -> Result<ExitCode, Failure> {
    if arguments.link {
        let (url, link) = ask_for_link(&arguments.listen).map_err(Failure::usage)?;
        let record = Served { url, link: Some(link) };
        output::print(format, &record, |record| format!("{}\n", record.link.as_deref().unwrap_or_default()))?;
        return Ok(Code::Completed.into());
    }
    let oidc = arguments.provider.options()?;
    if arguments.role_map.is_some() && arguments.auth != Auth::Proxy && oidc.is_none() {
        return Err(Failure::usage(anyhow::anyhow!(
            "--role-map gives roles to groups that a proxy or an identity provider names: it goes with --auth proxy, or with --oidc-issuer"
        )));
    }
    let whereabouts = arguments.whereabouts.settled()?;
    let place = place(&whereabouts);
    // Before anything is said that would have to be taken back.
    let mut signals = Signals::catch_for_service();
    let options = Options {
        listen: arguments.listen.clone(),
        url: arguments.url.clone(),
        allowed_hosts: arguments.allowed_hosts.clone(),
        origins: arguments.origins.clone(),
        is_open: arguments.auth == Auth::None,
        trusted_proxies: arguments.trusted_proxies.clone(),
        oidc: oidc.map(|provider| (provider, arguments.role_map.clone().unwrap_or_default())),
        proxy_roles: (arguments.auth == Auth::Proxy).then(|| arguments.role_map.clone().unwrap_or_default()),
        tls: tls(arguments),
        may_be_plain: arguments.insecure_http,
        limits: Limits::from(&arguments.limits),
        metrics: arguments.metrics_listen,
        first_token: std::env::var(FIRST_TOKEN).ok().filter(|text| !text.is_empty()).map(FirstToken),
        program: program(&whereabouts, arguments)?,
        allowed_paths: allowed(&arguments.allowed_paths)?,
        allowed_inputs: arguments.allowed_inputs.clone(),
        direct: Direct { downloads: arguments.direct_downloads, uploads: arguments.direct_uploads },
        commit: env!("PRS_COMMIT").strip_prefix("commit ").unwrap_or("unknown"),
    };
    let server = tokio::select! {
        server = Box::pin(Server::start(&options, whereabouts, place.clone())) => server.map_err(failure)?,
        _ = signals.next() => return Ok(Code::Completed.into()),
    };
    let record = Served { url: server.url().to_owned(), link: server.link() };
    output::print(format, &record, |record| {
        let login = record
            .link
            .as_ref()
            .map(|link| format!("log in {link}  (once, within 5 minutes; another: prs serve --link)\n"));
        format!("prs serves {place} on {}\n{}", record.url, login.unwrap_or_default())
    })?;
    if arguments.open {
        let address = record.link.as_ref().unwrap_or(&record.url);
        browser::open(address.as_ref()).unwrap_or_else(output::note);
    }
    let ends = async {
        let signal = signals.next().await;
        output::note(format_args!("{signal}: the server ends when what is under way has its answer"));
    };
    server.run(ends).await.map_err(failure)?;
    Ok(Code::Completed.into())
}

/// The files of the certificate.
fn tls(arguments: &Serve) -> Option<TlsFiles> {
    let (certificate, key) = (arguments.tls_cert.clone()?, arguments.tls_key.clone()?);
    Some(TlsFiles { certificate, key })
}

/// How a job of this machine is run: by this program, which knows names as this one does.
fn program(whereabouts: &Whereabouts, arguments: &Serve) -> Result<Program, Failure> {
    let path = std::env::current_exe().context("this program does not know where it is")?;
    let runs = std::path::absolute(&whereabouts.runs).context("there is no current folder")?;
    let mut words: Vec<OsString> = vec!["--color".into(), "never".into(), "take-up".into()];
    if arguments.whereabouts.servers.is_local() {
        words.push("--local".into());
    }
    words.extend(arguments.whereabouts.servers.configuration());
    words.extend(["--runs".into(), runs.into()]);
    Ok(Program { path, arguments: words })
}

/// Folders that are there.
fn allowed(folders: &[PathBuf]) -> Result<Vec<PathBuf>, Failure> {
    let resolved = |folder: &PathBuf| {
        let resolved = folder.canonicalize();
        resolved.with_context(|| format!("--allow-path {}", folder.display())).map_err(Failure::usage)
    };
    folders.iter().map(resolved).collect()
}

/// Where the jobs are, in words.
fn place(whereabouts: &Whereabouts) -> String {
    match &whereabouts.urls {
        Some(urls) => http_url::shown(&urls.storage).into_owned(),
        None => shown(&whereabouts.runs),
    }
}

fn failure(error: ServeError) -> Failure {
    match error {
        ServeError::OpenToAll(_)
        | ServeError::InTheClear(_)
        | ServeError::NoUrl(_)
        | ServeError::NoToken(_)
        | ServeError::NoProxy
        | ServeError::NoRoles
        | ServeError::ProviderInTheClear(_)
        | ServeError::OtherScheme(_)
        | ServeError::Tls { .. }
        | ServeError::Listen { .. }
        | ServeError::ListenForMetrics { .. }
        | ServeError::Link(LinkError::NoFolder) => Failure::usage(error),
        ServeError::Jobs(failure) => failure,
        error => Failure::from(anyhow::Error::from(error)),
    }
}
