//! Registered versions, for people and for programs.

use std::collections::BTreeMap;

use console::Term;
use prs_common::dataset::http_url;
use prs_common::registry::{AssetVersion, Kind};
use prs_jobs::records::{Asset, AssetList, Data, DataList};

use crate::cli::Format;
use crate::failure::Failure;
use crate::terminal::output;
use crate::terminal::table::{Table, pairs};

/// Prints one.
pub(super) fn print(one: AssetVersion, format: Format) -> Result<(), Failure> {
    let shown = shown(&one);
    if one.kind.kind() == Kind::Data {
        output::print(format, &Data::from(one), |_| pairs(&shown))
    } else {
        output::print(format, &Asset::from(one), |_| pairs(&shown))
    }
}

fn shown(one: &AssetVersion) -> Vec<(&'static str, String)> {
    let mut shown = vec![
        ("name", one.name.clone()),
        ("version", one.version.clone()),
        ("type", one.kind.to_string()),
        ("path", http_url::shown(&one.path).into_owned()),
        ("created", one.created.clone()),
    ];
    shown.extend(one.about.description.clone().map(|text| ("description", text)));
    shown.extend(one.about.stage.clone().map(|text| ("stage", text)));
    let listed = |texts: &BTreeMap<String, String>| {
        texts.iter().map(|(key, value)| format!("{key}={value}")).collect::<Vec<_>>().join(", ")
    };
    let flavors: Vec<&str> = one.about.flavors.keys().map(String::as_str).collect();
    for (what, text) in [
        ("tags", listed(&one.about.tags)),
        ("properties", listed(&one.about.properties)),
        ("flavors", flavors.join(", ")),
    ] {
        if !text.is_empty() {
            shown.push((what, text));
        }
    }
    if one.archived {
        shown.push(("archived", "yes".to_owned()));
    }
    shown.push(("in a job file", format!("azureml:{}:{}", one.name, one.version)));
    shown
}

/// Prints many of `kind`.
pub(super) fn print_list(kind: Kind, versions: Vec<AssetVersion>, format: Format) -> Result<(), Failure> {
    if format == Format::Json {
        if kind == Kind::Data {
            let data = versions.into_iter().map(|one| Data::from(one).into()).collect();
            return output::json(&DataList { data });
        }
        let assets = versions.into_iter().map(|one| Asset::from(one).into()).collect();
        return output::json(&AssetList { assets });
    }
    if versions.is_empty() {
        let (noun, command) = (kind.noun(), kind.command());
        output::note(format_args!("no {noun} is registered; {command} create does it"));
        return Ok(());
    }
    let row = |one: AssetVersion| {
        let archived = if one.archived { " (archived)" } else { "" };
        vec![
            one.name,
            one.version + archived,
            one.kind.to_string(),
            one.created,
            http_url::shown(&one.path).into_owned(),
        ]
    };
    let table =
        Table::new(&["NAME", "VERSION", "TYPE", "CREATED", "PATH"], versions.into_iter().map(row).collect());
    output::text(&table.fit(&Term::stdout(), &["CREATED", "PATH"]).text())
}
