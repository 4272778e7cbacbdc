//! `man`: the help of every command as pages of the manual.

use std::fmt::Write as _;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::CommandFactory;
use clap_mangen::Man;
use serde::Serialize;

use crate::cli::{Arguments, Format, Manual};
use crate::failure::{Code, Failure};
use crate::terminal::output;
use prs_common::tree;

/// Pages of the manual that were written.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct ManualPages {
    /// Where they are.
    folder: PathBuf,
    /// The names of their files, that of the program first.
    pages: Vec<String>,
}

/// Writes the pages, one a command.
pub(super) fn man(arguments: &Manual, format: Format) -> Result<ExitCode, Failure> {
    let folder = &arguments.folder;
    let pages = write(folder).with_context(|| format!("cannot write manual pages to {}", folder.display()));
    let pages = pages.map_err(Failure::usage)?;
    output::print(format, &ManualPages { folder: folder.clone(), pages }, |made| {
        let (count, shown, first) = (made.pages.len(), folder.display(), folder.join("prs.1"));
        format!("{count} pages are in {shown}; man -l {} shows the first\n", first.display())
    })?;
    Ok(Code::Completed.into())
}

/// The names of the pages that are written, that of the program first.
fn write(folder: &Path) -> io::Result<Vec<String>> {
    tree::make_folders(folder)?;
    let mut program = Arguments::command().disable_help_subcommand(true);
    program.build();
    let commands = program.get_subcommands().filter(|command| !command.is_hide_set());
    let mut names = Vec::new();
    for command in [&program].into_iter().chain(commands) {
        let page = Man::new(command.clone()).manual("prs");
        let name = page.get_filename();
        fs::write(folder.join(&name), text(command, &page)?)?;
        names.push(name);
    }
    Ok(names)
}

/// A page. The examples keep their lines, which a page otherwise fills.
fn text(command: &clap::Command, page: &Man) -> io::Result<Vec<u8>> {
    let mut text = Vec::new();
    page.render_title(&mut text)?;
    page.render_name_section(&mut text)?;
    page.render_synopsis_section(&mut text)?;
    page.render_description_section(&mut text)?;
    page.render_options_section(&mut text)?;
    if command.has_subcommands() {
        page.render_subcommands_section(&mut text)?;
    }
    if let Some(examples) = command.get_after_help() {
        text.extend(section_of_examples(&examples.to_string()).bytes());
    }
    page.render_version_section(&mut text)?;
    Ok(text)
}

fn section_of_examples(help: &str) -> String {
    let mut section = ".SH EXAMPLES\n.nf\n".to_owned();
    for line in help.lines().skip(1) {
        let line = line.trim_start().replace('\\', "\\e").replace('-', "\\-");
        let _ = writeln!(section, "{line}");
    }
    section + ".fi\n"
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn examples_keep_their_lines() {
        let section = section_of_examples("Examples:\n  prs submit job.yml --set a=1\n  prs list");
        assert_eq!(section, ".SH EXAMPLES\n.nf\nprs submit job.yml \\-\\-set a=1\nprs list\n.fi\n");
    }
}
