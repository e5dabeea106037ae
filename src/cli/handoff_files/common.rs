//! What the commands over handoff files share.

use crate::cli::exit::{Exit, Failure};
use crate::cli::handoff_file_args::{FolderArgs, Format};
use crate::cli::load_state;
use crate::cli::output::{Out, visible};
use crate::config::{Config, Secret};
use crate::handoff_files::agent_mail::AgentMail;
use crate::handoff_files::{FileError, HandoffFolder};
use crate::packet::ntm::HandoffFile;

/// The folder of handoff files, and the config that it was found by.
pub(super) fn folder(args: &FolderArgs) -> Result<(HandoffFolder, Config), Failure> {
    let config = load_state(&args.state)?;
    let dir = args.dir.clone().unwrap_or_else(|| config.packets_dir());
    Ok((HandoffFolder::new(&dir).map_err(failure)?, config))
}

pub(super) fn failure(error: FileError) -> Failure {
    let exit = match &error {
        FileError::Invalid(_) | FileError::Malformed(..) => Exit::DATA,
        FileError::Refused(..) => Exit::USAGE,
        FileError::Missing(_) => Exit::NO_INPUT,
        FileError::Busy(_) => Exit::UNAVAILABLE,
        FileError::Io(..) => Exit::IO,
    };
    Failure::new(exit, visible(&error.to_string()))
}

/// Tells what went wrong beside the point.
pub(super) fn warn(warnings: &[FileError]) {
    let mut err = Out::stderr();
    for warning in warnings {
        // Standard error may be closed.
        let _ = err.line(format_args!("warning: {}", visible(&warning.to_string())));
    }
}

pub(super) fn print(file: &HandoffFile, format: Format, out: &mut Out) -> Result<(), Failure> {
    match format {
        Format::Yaml => out.body(file.to_yaml().as_bytes())?,
        Format::Json => out.json(&file.to_value().to_json())?,
        Format::Markdown => out.body(file.to_markdown().as_bytes())?,
    }
    Ok(())
}

/// The client that the config describes; `None` where it names no server.
pub(super) fn mail(config: &Config) -> Result<Option<AgentMail>, Failure> {
    let Some(url) = &config.packets.agent_mail_url else {
        return Ok(None);
    };
    let token = config.packets.agent_mail_token.as_ref().map(Secret::reveal);
    let mail = AgentMail::new(url, token);
    mail.map(Some)
        .map_err(|error| Failure::new(Exit::CONFIG, error.message))
}
