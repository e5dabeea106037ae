//! Functions that the commands over YAML files share.

use crate::cli::exit::CommandFailure;
use crate::cli::handoff_args::DocumentFormat;
use crate::cli::output::Out;
use baton_core::handoffs::yaml::HandoffFile;

pub(super) fn print(file: &HandoffFile, format: DocumentFormat, out: &mut Out) -> Result<(), CommandFailure> {
    match format {
        DocumentFormat::Yaml => out.document(&file.to_yaml())?,
        DocumentFormat::Json => out.json(&file.to_value().to_json())?,
        DocumentFormat::Md => out.document(&file.to_markdown())?,
    }
    Ok(())
}
