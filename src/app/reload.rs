//! Applies a changed config to a running service.
//!
//! A request keeps the gateway, and with it the app and the config, that it began with; [`Reloader::apply`] swaps in new ones
//! for the requests after it. What outlives requests is opened once: [`FIXED`] lists the settings that need a restart.

use std::io;
use std::sync::{Arc, Mutex};

use crate::serve::exchange::App;
use crate::serve::proxy::certificate::Certificate;
use crate::serve::proxy::exchange_recorder::EventHook;
use crate::serve::proxy::server::GatewaySlot;
use crate::serve::proxy::{GatewayParts, descriptors};
use crate::state::config::{Config, Secret};
use crate::state::journal::Redactor;
use crate::state::sync::locked;

/// What the HTTP side takes from an app.
pub(super) fn gateway_parts(app: &Arc<App>, events: EventHook) -> GatewayParts {
    GatewayParts {
        config: Arc::clone(&app.config),
        store: Arc::clone(app.sessions.store()),
        journal: app.journal.clone(),
        redactor: app.redactor.clone(),
        bodies: app.bodies.clone(),
        events,
        handler: Arc::<App>::clone(app),
    }
}

/// Settings that hold until a restart.
struct FixedSetting {
    key: &'static str,
    /// Whether two configs differ in it.
    differs: fn(&Config, &Config) -> bool,
    /// Copies it from the running config.
    keep: fn(&Config, &mut Config),
}

macro_rules! fixed {
    ($($key:literal => $($field:ident).+;)*) => {
        &[$(FixedSetting {
            key: $key,
            differs: |running, new| running.$($field).+ != new.$($field).+,
            keep: |running, new| new.$($field).+ = running.$($field).+.clone(),
        }),*]
    };
}

/// The settings of what is opened, bound or started once: listeners, store, seal keys, journal, log, traces, writers, and the
/// memory that is shared by requests before and after.
const FIXED: &[FixedSetting] = fixed! {
    "server.listen" => server.listen;
    "server.drain_secs" => server.drain;
    "admin" => admin;
    "state.dir" => state_dir;
    "store" => store;
    "handoff.seal_key" => handoff.seal_keys;
    "handoff.seal_key_dir" => handoff.seal_key_dir;
    "handoff.documents, handoff.dir and the other keys of documents" => documents;
    "draft.expire_hours" => draft.expires;
    "log" => log;
    "telemetry.otlp_endpoint" => telemetry.otlp_endpoint;
    "journal.enabled" => journal.enabled;
    "journal.max_bytes" => journal.max_bytes;
    "journal.max_age_days" => journal.max_age;
    "journal.queue_bytes" => journal.queue_bytes;
    "journal.response_bytes" => journal.response_bytes;
    "limits.bodies_bytes" => limits.bodies_bytes;
    "limits.shelf_bytes" => limits.shelf_bytes;
    "limits.cache_bytes" => limits.cache_bytes;
    "limits.exchanges" => limits.exchanges;
    "limits.connections" => limits.connections;
};

/// Listeners are bound with TLS or without. The files of the certificate may change.
const TLS: &str = "server.tls_cert and server.tls_key (on or off)";

/// What of a running service follows a changed config.
pub(crate) struct Reloader {
    slot: GatewaySlot,
    certificate: Option<Certificate>,
    events: EventHook,
    state: Mutex<ReloadState>,
}

struct ReloadState {
    app: Arc<App>,
    /// The config as it was loaded last: the running one has the ports that were picked.
    loaded: Config,
}

/// The outcome of a reload.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct ReloadReport {
    /// Changed settings that hold only after a restart.
    pub(crate) fixed: Vec<&'static str>,
}

impl Reloader {
    /// `loaded` is the config as it was loaded, before ports were picked and limits were fitted.
    pub(super) fn new(
        slot: GatewaySlot,
        certificate: Option<Certificate>,
        events: EventHook,
        app: Arc<App>,
        loaded: Config,
    ) -> Self {
        Self {
            slot,
            certificate,
            events,
            state: Mutex::new(ReloadState { app, loaded }),
        }
    }

    /// Applies this config to later requests.
    ///
    /// # Errors
    /// A file that the config names cannot be read: the certificate, prompts, prices. Nothing has changed then.
    pub(crate) fn apply(&self, loaded: Config) -> io::Result<ReloadReport> {
        let mut state = locked(&self.state);
        let running = Arc::clone(&state.app.config);
        let mut config = loaded.clone();
        let mut fixed: Vec<_> = FIXED
            .iter()
            .filter(|setting| (setting.differs)(&state.loaded, &loaded))
            .map(|setting| setting.key)
            .collect();
        for setting in FIXED {
            (setting.keep)(&running, &mut config);
        }
        if config.server.tls.is_some() != running.server.tls.is_some() {
            if state.loaded.server.tls.is_some() != loaded.server.tls.is_some() {
                fixed.push(TLS);
            }
            config.server.tls.clone_from(&running.server.tls);
        }
        descriptors::fit(&mut config, descriptors::raise());
        let certificate = match (&self.certificate, &config.server.tls) {
            (Some(_), Some((chain, key))) => Some(Certificate::read(chain, key)?),
            _ => None,
        };
        let app = Arc::new(state.app.reloaded(config)?);
        let parts = gateway_parts(&app, Arc::clone(&self.events));
        let gateway = self.slot.load().reloaded(parts)?;
        // From here on nothing fails.
        let secrets = app.config.journal.secrets.iter().map(Secret::reveal);
        app.journal
            .redact_by(&Redactor::lazy(&app.config.journal.redact).knowing(secrets));
        if let (Some(certificate), Some(next)) = (&self.certificate, certificate) {
            certificate.replace(&next);
        }
        self.slot.store(Arc::new(gateway));
        *state = ReloadState { app, loaded };
        Ok(ReloadReport { fixed })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_setting_is_kept_and_named() {
        let running = Config::default_for_tests();
        let differing = |new: &Config| -> Vec<_> {
            let rows = FIXED.iter().filter(|setting| (setting.differs)(&running, new));
            rows.map(|setting| setting.key).collect()
        };
        assert_eq!(differing(&running.clone()), [""; 0]);
        let mut new = running.clone();
        new.log.level = "trace".to_owned();
        new.admin.token = Some(Secret::new("another"));
        new.store.kind = crate::state::config::StoreKind::Sqlite;
        new.handoff.max_chain += 1;
        assert_eq!(differing(&new), ["admin", "store", "log"]);
        for setting in FIXED {
            (setting.keep)(&running, &mut new);
        }
        assert_eq!(differing(&new), [""; 0]);
        assert_eq!(new.handoff.max_chain, running.handoff.max_chain + 1, "reloaded");
    }
}
