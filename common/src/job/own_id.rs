//! `${{name}}`: the id of the job, in what it calls its output (dialects A.8).
//!
//! A job file has no id. What it says stays as it is until a job is made of it; the job keeps it beside what came of it,
//! for the job that is made of that one has another id.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

use super::LoadedPipeline;
use super::file_name::check_file_name;
use super::outputs::NamedOutput;
use super::pipeline::step_id;
use super::references::substitute;
use super::spec::JobSpec;

/// What stands for the id.
pub(super) const JOB_ID: &str = "${{name}}";

/// What a job calls its output, as its job file has it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct WithJobId {
    /// The id that was put in its place.
    id: String,
    output: Option<PathBuf>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    deliver_to: Option<String>,
    append_row_file_name: String,
    outputs: Vec<NamedOutput>,
}

impl JobSpec {
    /// Puts `id` in the place of each `${{name}}`. Settings of a former job get it where that one had its own.
    pub fn put_job_id(&mut self, id: &str) {
        if let Some(given) = self.with_job_id.take() {
            let WithJobId { id: former, output, deliver_to, append_row_file_name, outputs } = *given;
            restore(&mut self.output, output, |one| one.as_ref().map(|path| path_with(path, &former)));
            restore(&mut self.deliver_to, deliver_to, |one| {
                one.as_ref().map(|place| place.replace(JOB_ID, &former))
            });
            restore(&mut self.append_row_file_name, append_row_file_name, |one| one.replace(JOB_ID, &former));
            restore(&mut self.outputs, outputs, |one| {
                one.iter().map(|one| output_with(one, &former)).collect()
            });
        }
        let given = WithJobId {
            id: id.to_owned(),
            output: self.output.clone(),
            deliver_to: self.deliver_to.clone(),
            append_row_file_name: with_plain_job_id(&self.append_row_file_name),
            outputs: self.outputs.clone(),
        };
        self.output = given.output.as_ref().map(|path| path_with(path, id));
        self.deliver_to = given.deliver_to.as_ref().map(|place| place.replace(JOB_ID, id));
        self.append_row_file_name = given.append_row_file_name.replace(JOB_ID, id);
        self.outputs = given.outputs.iter().map(|one| output_with(one, id)).collect();
        let has_none = self.output == given.output
            && self.deliver_to == given.deliver_to
            && self.append_row_file_name == given.append_row_file_name
            && self.outputs == given.outputs;
        self.with_job_id = (!has_none).then(|| Box::new(given));
    }
}

impl LoadedPipeline {
    /// Puts the ids of the steps of the pipeline `id` in the place of each `${{name}}`; of a job that became a pipeline, its own.
    pub fn put_job_ids(&mut self, id: &str) {
        let main = self.pipeline.main.clone();
        if main.is_some() {
            self.spec.put_job_id(id);
        }
        for step in &mut self.pipeline.steps {
            let id = if main.as_ref() == Some(&step.name) { id.to_owned() } else { step_id(id, &step.name) };
            step.spec.put_job_id(&id);
            for path in step.outputs.values_mut() {
                *path = path.replace(JOB_ID, &id);
            }
            for place in self.pipeline.places.iter_mut().filter(|place| place.step == step.name) {
                place.to = place.to.replace(JOB_ID, &id);
            }
        }
    }
}

/// Makes `present` what was `given` where it is what came of that.
fn restore<T: PartialEq>(present: &mut T, given: T, came: impl Fn(&T) -> T) {
    if *present == came(&given) {
        *present = given;
    }
}

fn path_with(path: &std::path::Path, id: &str) -> PathBuf {
    path.to_str().map_or_else(|| path.to_owned(), |path| path.replace(JOB_ID, id).into())
}

fn output_with(output: &NamedOutput, id: &str) -> NamedOutput {
    NamedOutput { path: output.path.replace(JOB_ID, id), ..output.clone() }
}

/// `given` with [`JOB_ID`] as it is looked for; what has other expressions stays as it is.
pub(super) fn with_plain_job_id(given: &str) -> String {
    let plain = substitute(given, |inside| match inside {
        "name" => Ok(JOB_ID.to_owned()),
        _ => Err(String::new()),
    });
    plain.unwrap_or_else(|_| given.to_owned())
}

/// `given` as it may be once there is an id.
pub(super) fn with_some_id(given: &str) -> String {
    with_plain_job_id(given).replace(JOB_ID, "id")
}

/// What is wrong with `name` as the name of the result file.
pub(super) fn check_named_file(name: &str) -> Result<(), String> {
    check_file_name(&with_some_id(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_is_put_in_its_place_and_another_one_for_another_job() {
        let mut spec = JobSpec::new("job", "/code", "x.py", Vec::new());
        spec.put_job_id("job-1");
        assert_eq!(spec.with_job_id, None);
        spec.output = Some("/out/${{name}}".into());
        spec.deliver_to = Some("s3://bucket/${{name}}".to_owned());
        spec.append_row_file_name = "rows-${{name}}.csv".to_owned();
        let output = |path: &str| NamedOutput { name: "m".to_owned(), path: path.to_owned(), is_file: false };
        spec.outputs = vec![output("a/${{name}}")];
        for id in ["job-1", "job-2"] {
            spec.put_job_id(id);
            assert_eq!(spec.output, Some(format!("/out/{id}").into()));
            assert_eq!(spec.deliver_to, Some(format!("s3://bucket/{id}")));
            assert_eq!(spec.append_row_file_name, format!("rows-{id}.csv"));
            assert_eq!(spec.outputs, [output(&format!("a/{id}"))]);
            let text = serde_json::to_string(&spec).unwrap();
            assert_eq!(serde_json::from_str::<JobSpec>(&text).unwrap(), spec);
        }
        // What was changed since is left.
        spec.output = Some("/elsewhere".into());
        spec.put_job_id("job-3");
        assert_eq!(spec.output, Some("/elsewhere".into()));
        assert_eq!(spec.append_row_file_name, "rows-job-3.csv");
        assert_eq!(with_plain_job_id("a/${{ name }}/b"), "a/${{name}}/b");
        assert_eq!(with_plain_job_id("${{inputs.x}}/${{ name }}"), "${{inputs.x}}/${{ name }}");
    }
}
