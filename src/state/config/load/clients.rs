//! Reads the clients of a config: the list in a layer, and the files of a directory.

use std::collections::BTreeSet;
use std::io;

use super::{Loader, unreadable};
use crate::config::keys::{BRAKE, BRAKE_TABLE, CLIENT, CLIENT_FILE, CLIENTS, ConfigKey};
use crate::config::problem::{KeyOrigin, Problem, ProblemKind};
use crate::config::raw::{LocatedValue, Raw, read_toml};
use crate::config::value::complaint;
use crate::config::{ClientKey, Config, Environment, client_files};
use crate::disk;

impl Loader<'_> {
    /// Reads the list of clients, which replaces that of the previous layer.
    pub(super) fn clients(&mut self, config: &mut Config, given: &LocatedValue) {
        let items = given.structured().and_then(|list| match list.raw {
            Raw::List(items) => Ok(items),
            _ => given.expected("a list of tables", "write [[clients]] above each"),
        });
        let items = match items {
            Ok(items) => items,
            Err(complaints) => return self.complain(CLIENTS, &given.origin, complaints),
        };
        // Merging by index would combine one client's name with another client's key.
        config.clients.clear();
        for (index, item) in items.iter().enumerate() {
            let mut client = ClientKey::default();
            let path = format!("{CLIENTS}.{index}");
            self.origins.insert(path.clone(), item.origin.clone());
            self.client(&mut client, CLIENT, &path, item);
            config.clients.push(client);
        }
    }

    /// Reads a client with its own limits of the brake.
    fn client(
        &mut self,
        client: &mut ClientKey,
        keys: &[&dyn ConfigKey<ClientKey>],
        path: &str,
        given: &LocatedValue,
    ) {
        let Some(entries) = self.table(path, given) else {
            return;
        };
        let (brake, own): (Vec<_>, Vec<_>) = entries.into_iter().partition(|entry| entry.key == BRAKE_TABLE);
        let (raw, origin) = (Raw::Table(own), given.origin.clone());
        self.fields(client, keys, path, &LocatedValue { raw, origin });
        let path = format!("{path}.{BRAKE_TABLE}");
        for entry in brake {
            self.fields(&mut client.brake, BRAKE, &path, &entry.value);
        }
    }

    /// Adds the clients that have a file in the directory of clients.
    pub(super) fn client_files(&mut self, config: &mut Config) {
        const DIR: &str = "server.clients_dir";
        let Some(dir) = config.server.clients_dir.clone() else {
            return;
        };
        let found = match client_files::list(&dir) {
            Ok(found) => found,
            Err(error) => {
                let origin = self.origins.get(DIR).cloned();
                let message = format!("the directory {} cannot be read: {error}", dir.display());
                let help = "create it, for example with `baton client add NAME`, or fix the path";
                let origin = origin.unwrap_or_else(|| KeyOrigin::File(dir.display().to_string()));
                return self.complain(DIR, &origin, complaint(ProblemKind::Unavailable, message, help));
            }
        };
        for (client_name, file) in found {
            let name = file.display().to_string();
            if !client_files::is_name(&client_name) {
                let message = "its name cannot be that of a client".to_owned();
                let help = "use letters, digits, `-`, `_` and `.`, and not `local`";
                // The name may contain anything.
                let name = name.escape_debug().to_string();
                let problem = Problem::in_file(ProblemKind::Value, name, message, help);
                config.refused_clients.push(problem);
                continue;
            }
            let text = match disk::read_small(&file) {
                Ok(text) => text,
                Err(error) => {
                    let problem = unreadable(name, &error, "replace or remove it");
                    config.refused_clients.push(problem);
                    continue;
                }
            };
            let mut problems = Vec::new();
            let entries = read_toml(&name, &text, &mut problems);
            // The first one is enough: a file that is not TOML has one in each line.
            if let Some(first) = problems.into_iter().next() {
                config.refused_clients.push(first);
                continue;
            }
            let path = format!("{CLIENTS}.{}", config.clients.len());
            let origin = KeyOrigin::File(name);
            self.origins.insert(path.clone(), origin.clone());
            // Two clients of one name are reported at this file.
            self.origins.insert(format!("{path}.name"), origin.clone());
            let mut client = ClientKey {
                name: client_name,
                file: Some(file),
                ..ClientKey::default()
            };
            let raw = Raw::Table(entries);
            self.client(&mut client, CLIENT_FILE, &path, &LocatedValue { raw, origin });
            config.clients.push(client);
        }
    }

    /// Removes the clients whose files have problems.
    ///
    /// Otherwise one broken file would keep the others from taking effect, and so the keys of removed clients valid.
    pub(super) fn refuse_clients(&mut self, config: &mut Config) {
        let name = |client: &ClientKey| Some(client.file.as_ref()?.display().to_string());
        let files: BTreeSet<String> = config.clients.iter().filter_map(name).collect();
        let is_of_client = |problem: &Problem| problem.origin.file().is_some_and(|file| files.contains(file));
        let problems = std::mem::take(&mut self.problems).into_iter();
        let (refused, rest): (Vec<_>, Vec<_>) = problems.partition(is_of_client);
        self.problems = rest;
        let broken: BTreeSet<_> = refused
            .iter()
            .filter_map(|problem| problem.origin.file())
            .collect();
        config
            .clients
            .retain(|client| name(client).is_none_or(|name| !broken.contains(&name)));
        config.refused_clients.extend(refused);
    }
}

impl Config {
    /// Returns the clients that are still there: the files are read again, and the entries of the config stay.
    ///
    /// # Errors
    /// Returns an error if the directory exists and cannot be read. A directory that is gone has no clients.
    pub fn present_clients(&self, env: &Environment) -> io::Result<Vec<ClientKey>> {
        let listed = self.clients.iter().filter(|client| client.file.is_none());
        let mut present = Self {
            server: self.server.clone(),
            clients: listed.cloned().collect(),
            ..Self::default()
        };
        let dir = self
            .server
            .clients_dir
            .as_deref()
            .map_or(Ok(Vec::new()), client_files::list);
        match dir {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            _ => {
                let mut loader = Loader::new(env);
                loader.client_files(&mut present);
                loader.refuse_clients(&mut present);
            }
        }
        Ok(present.clients)
    }

    /// Whether `[[clients]]` was read without a problem, so that a client that is not in it was removed.
    pub fn is_client_list_read(problems: &[Problem]) -> bool {
        // A problem of a whole file or section has no dot: the list may be hidden by it, or be under a misspelled name.
        let is_elsewhere = |key: &str| key.split_once('.').is_some_and(|(section, _)| section != CLIENTS);
        problems.iter().all(|problem| is_elsewhere(&problem.key))
    }
}
