//! Reads the clients of a config: the list in a layer, and the files of a directory.

use super::{Loader, unreadable};
use crate::config::keys::{BRAKE, BRAKE_TABLE, CLIENT, CLIENT_FILE, CLIENTS, ConfigKey};
use crate::config::problem::{KeyOrigin, Problem, ProblemKind};
use crate::config::raw::{LocatedValue, Raw, read_toml};
use crate::config::value::complaint;
use crate::config::{ClientKey, Config, client_files};
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
            self.client_files.push(name.clone());
            let entries = read_toml(&name, &text, &mut self.problems);
            let path = format!("{CLIENTS}.{}", config.clients.len());
            let origin = KeyOrigin::File(name);
            self.origins.insert(path.clone(), origin.clone());
            // Two clients of one name are reported at this file.
            self.origins.insert(format!("{path}.name"), origin.clone());
            let mut client = ClientKey {
                name: client_name,
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
        let files = &self.client_files;
        let is_of = |problem: &Problem, name: &String| problem.origin.file() == Some(name);
        let (refused, rest): (Vec<_>, Vec<_>) = std::mem::take(&mut self.problems)
            .into_iter()
            .partition(|problem| files.iter().any(|name| is_of(problem, name)));
        self.problems = rest;
        let first = config.clients.len() - files.len();
        let mut index = 0;
        config.clients.retain(|_| {
            let file = usize::checked_sub(index, first).map(|at| &files[at]);
            index += 1;
            file.is_none_or(|name| !refused.iter().any(|problem| is_of(problem, name)))
        });
        config.refused_clients.extend(refused);
    }
}
