//! `${{ }}` in the forms of Azure: what the expression stands for.
//!
//! One that stands for a folder or a file of a node becomes a native reference, where the script gets it; anywhere else it
//! is refused by its name.

use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;

pub(super) use super::super::references::{fill, parts, substitute, whole};

use super::super::near_name::few;
use super::bindings::{Bound, Input, Output};

/// The expressions that there are.
const FORMS: &str =
    "${{inputs.NAME}}, ${{outputs.NAME}}, ${{parent.inputs.NAME}} and ${{parent.outputs.NAME}}";

/// What expressions of one job, or of one step, may name.
#[derive(Debug, Clone, Copy)]
pub(super) struct Scope<'a> {
    pub(super) inputs: &'a [Input],
    /// The inputs of the pipeline that the job is a step of.
    pub(super) parent: Option<&'a [Input]>,
    /// Which of `inputs` is cut into mini-batches: an empty name where that is wrong, nothing in a pipeline itself.
    pub(super) input_data: Option<&'a str>,
    pub(super) outputs: &'a [Output],
    /// What the script gets paths of; nothing where the text is for prs.
    pub(super) uses: Option<&'a Uses>,
}

/// What the texts for a script name.
#[derive(Debug, Default)]
pub(super) struct Uses {
    /// Whether one of them is the input that is cut into mini-batches.
    pub(super) input_data: Cell<bool>,
    /// The outputs among them.
    pub(super) outputs: RefCell<BTreeSet<String>>,
}

impl<'a> Scope<'a> {
    /// What expressions of the pipeline around the step may name.
    pub(super) fn of_pipeline(&self) -> Scope<'a> {
        Scope {
            inputs: self.parent.unwrap_or_default(),
            parent: None,
            input_data: None,
            outputs: &[],
            uses: None,
        }
    }

    /// `text` with the values of its expressions.
    pub(super) fn substitute(&self, text: &str) -> Result<String, String> {
        substitute(text, |inside| self.value(inside))
    }

    /// What the inside of an expression stands for.
    pub(super) fn value(&self, inside: &str) -> Result<String, String> {
        let shown = format!("${{{{{inside}}}}}");
        match parts(inside)[..] {
            ["inputs", name] | ["inputs", name, "path"] => {
                text_of(self.inputs, self.input_data, name, &shown, self.uses)
            }
            ["parent", "inputs", name] | ["parent", "inputs", name, "path"] => match self.parent {
                Some(inputs) => text_of(inputs, None, name, &shown, None),
                None => Err(format!("{shown} is for the step of a pipeline: write ${{{{inputs.{name}}}}}")),
            },
            ["outputs", name] | ["outputs", name, "path"] => self.output(name, &shown),
            ["parent", "jobs", ..] => Err(format!("{shown}: there is no other step")),
            ["parents", ..] => Err(format!("{shown}: write `parent`, without an s")),
            ["search_space", ..] => Err(format!("{shown}: sweeps are not supported")),
            ["name" | "output_name" | "default_datastore"] => {
                Err(format!("{shown} is for the path of an output alone"))
            }
            _ => Err(format!("{shown} is no reference: there are {FORMS}")),
        }
    }
}

impl Scope<'_> {
    /// The reference to the output `name`.
    fn output(&self, name: &str, shown: &str) -> Result<String, String> {
        let Some(uses) = self.uses else {
            return Err(format!(
                "{shown}: an output is for program_arguments and environment_variables: remove it"
            ));
        };
        if !self.outputs.iter().any(|output| output.at.key == name) {
            let names = few(self.outputs.iter().map(|output| &*output.at.key));
            return Err(match names.nearest(name) {
                Some(near) => format!("{shown}: there is no output `{name}`: did you mean `{near}`?"),
                None => format!("{shown}: there is no output `{name}`: give it under outputs"),
            });
        }
        uses.outputs.borrow_mut().insert(name.to_owned());
        Ok(format!("${{{{outputs.{name}}}}}"))
    }
}

/// The text of the input `name`, one of `inputs`, of which `input_data` is cut into mini-batches (see [`Scope`]).
fn text_of(
    inputs: &[Input],
    input_data: Option<&str>,
    name: &str,
    shown: &str,
    uses: Option<&Uses>,
) -> Result<String, String> {
    let Some(input) = inputs.iter().find(|input| input.at.key == name) else {
        let names = few(inputs.iter().map(|input| input.at.key.as_str()));
        return Err(match names.nearest(name) {
            Some(near) => format!("{shown}: there is no input `{name}`: did you mean `{near}`?"),
            None => format!("{shown}: there is no input `{name}`; there are: {names}"),
        });
    };
    match (&input.bound, input_data, uses) {
        (Bound::Text(text), ..) => Ok(text.clone()),
        (Bound::Data(_), None, _) => Err(format!(
            "{shown}: data of the pipeline: give them under the inputs of the step too, and write ${{{{inputs.NAME}}}}"
        )),
        (Bound::Data(_), Some(_), None) => {
            Err(format!("{shown}: data where a value is expected: give an input with a value"))
        }
        (Bound::Data(_), Some(input_data), Some(uses)) => {
            if input_data == name {
                uses.input_data.set(true);
            }
            Ok(format!("${{{{side_inputs.{name}}}}}"))
        }
        // What is wrong with it is told where it stands.
        (Bound::Wrong, ..) => Ok(String::new()),
    }
}
