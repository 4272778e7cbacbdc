//! The stylesheet, the script and the picture of the tab, under names that change with them: a browser asks for each once.

use std::sync::LazyLock;

use axum::extract::Path;
use axum::http::header::{CACHE_CONTROL, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};

use crate::http::conditional::short_checksum;
use crate::problem::{Kind, Problem};

/// A file.
#[derive(Debug)]
struct Asset {
    address: String,
    kind: &'static str,
    content: String,
}

impl Asset {
    fn new(name: &str, kind: &'static str, content: String) -> Self {
        let ending = match kind {
            "text/css" => "css",
            "text/javascript" => "js",
            _ => "svg",
        };
        let address = format!("/static/{name}-{}.{ending}", short_checksum(content.as_bytes()));
        Self { address, kind, content }
    }
}

/// The files: stylesheet, script, picture; then the picture of each family of states.
static ASSETS: LazyLock<Vec<Asset>> = LazyLock::new(|| {
    let picture = |name: &str, content: String| Asset::new(name, "image/svg+xml", content);
    let mut assets = vec![
        Asset::new("app", "text/css", prs_portal::CSS.to_owned()),
        Asset::new("app", "text/javascript", prs_portal::js()),
        picture("icon", prs_portal::ICON.to_owned()),
    ];
    assets.extend(prs_portal::icons().map(|(family, content)| picture(family, content)));
    assets
});

/// Their addresses.
#[derive(Debug, Clone)]
pub(crate) struct Assets {
    pub(crate) css: String,
    pub(crate) js: String,
    pub(crate) icon: String,
    /// By family of states.
    pub(crate) icons: Vec<(&'static str, String)>,
}

impl Assets {
    pub(crate) fn new() -> Self {
        let address = |at: usize| ASSETS[at].address.clone();
        let icons = prs_portal::icons().into_iter().enumerate();
        let icons = icons.map(|(at, (family, _))| (family, address(at + 3))).collect();
        Self { css: address(0), js: address(1), icon: address(2), icons }
    }
}

/// `GET /static/{name}`.
pub(crate) async fn one(Path(name): Path<String>) -> Result<Response, Problem> {
    let wanted = format!("/static/{name}");
    let asset = ASSETS.iter().find(|asset| asset.address == wanted);
    let Some(asset) = asset else {
        return Err(Problem::new(Kind::NOT_FOUND, "There is no such file; another version of prs had it."));
    };
    let kind = format!("{}; charset=utf-8", asset.kind);
    let headers = [(CONTENT_TYPE, kind), (CACHE_CONTROL, "public, max-age=31536000, immutable".to_owned())];
    Ok((headers, asset.content.as_str()).into_response())
}
