//! Functions that the commands over handoff files share.

use crate::cli::exit::{CommandFailure, Exit};
use crate::cli::handoff_args::DocumentFormat;
use crate::cli::output::Out;
use crate::state::config::{Config, Secret};
use crate::state::files::yaml_files::agent_mail::AgentMail;
use baton_core::handoffs::yaml::HandoffFile;

pub(super) fn print(file: &HandoffFile, format: DocumentFormat, out: &mut Out) -> Result<(), CommandFailure> {
    match format {
        DocumentFormat::Yaml => out.document(&file.to_yaml())?,
        DocumentFormat::Json => out.json(&file.to_value().to_json())?,
        DocumentFormat::Md => out.document(&file.to_markdown())?,
    }
    Ok(())
}

/// The client that the config describes; `None` where it names no server.
pub(super) fn mail(config: &Config) -> Result<Option<AgentMail>, CommandFailure> {
    let Some(url) = &config.documents.agent_mail_url else {
        return Ok(None);
    };
    let token = config.documents.agent_mail_token.as_ref().map(Secret::reveal);
    let agents = config.documents.agent_mail_agents.iter();
    let agents = agents.map(|(name, token)| (name.clone(), token.reveal().to_owned()));
    let mail = AgentMail::new(url, token).map(|mail| mail.with_agents(agents));
    mail.map(Some)
        .map_err(|error| CommandFailure::new(Exit::CONFIG, error.message))
}
