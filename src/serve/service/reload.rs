//! Applies a changed config to a running service.
//!
//! A request keeps the gateway that it began with, and with it the app and the config. [`Reloader::apply`]
//! swaps in new ones for later requests. Parts that outlive requests are opened once, so
//! [`Config::keep_fixed`] keeps their settings.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};

use crate::app::App;
use crate::exchange;
use crate::proxy::certificate::Certificate;
use crate::proxy::exchange_recorder::EventHook;
use crate::proxy::server::GatewaySlot;
use crate::proxy::{Gateway, GatewayParts, descriptors};
use crate::state::config::{Config, Secret};
use crate::state::journal::Redactor;
use crate::state::sync::locked;

/// Returns the HTTP side's dependencies from an app.
pub(super) fn gateway_parts(app: &Arc<App>, events: EventHook) -> GatewayParts {
    let charged = Arc::clone(app);
    let events: EventHook = Arc::new(move |mut event| {
        exchange::charge(&charged, &mut event);
        events(event);
    });
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

/// Setting that needs a restart: listeners are bound with TLS or without. The files of the certificate may change.
const TLS: &str = "server.tls_cert and server.tls_key (on or off)";

/// Applies a changed config to a running service.
pub struct Reloader {
    slot: GatewaySlot,
    /// Certificates of the data listener and the admin listener.
    certificates: [Option<Certificate>; 2],
    events: EventHook,
    refused: Arc<AtomicBool>,
    state: Mutex<ReloadState>,
}

struct ReloadState {
    app: Arc<App>,
    /// Config as it was loaded last. The running one has the ports that the system picked.
    loaded: Config,
}

/// Outcome of a reload.
#[derive(Debug, PartialEq, Eq)]
pub struct ReloadReport {
    /// Changed settings that take effect only after a restart.
    pub fixed: Vec<String>,
}

impl Reloader {
    /// Creates a reloader. `loaded` is the config before ports were picked and limits were fitted.
    pub(super) fn new(
        slot: GatewaySlot,
        certificates: [Option<Certificate>; 2],
        events: EventHook,
        refused: Arc<AtomicBool>,
        app: Arc<App>,
        loaded: Config,
    ) -> Self {
        Self {
            slot,
            certificates,
            events,
            refused,
            state: Mutex::new(ReloadState { app, loaded }),
        }
    }

    /// Returns the gateway of the next request.
    pub fn gateway(&self) -> Arc<Gateway> {
        self.slot.load_full()
    }

    /// Reports whether the newest config was refused. `/readyz`, `baton doctor` and a metric show it.
    pub fn set_refused(&self, refused: bool) {
        self.refused.store(refused, Ordering::Relaxed);
    }

    /// Applies this config to later requests.
    ///
    /// # Errors
    /// A file that the config names cannot be read: the certificate, prompts or prices. Nothing has changed then.
    pub fn apply(&self, loaded: Config) -> io::Result<ReloadReport> {
        let mut state = locked(&self.state);
        let running = Arc::clone(&state.app.config);
        let mut config = loaded.clone();
        let mut fixed = loaded.clone().keep_fixed(&state.loaded);
        config.keep_fixed(&running);
        // Whether TLS is on was fixed when the listener was bound.
        if config.server.at.tls().is_some() != running.server.at.tls().is_some() {
            if state.loaded.server.at.tls().is_some() != loaded.server.at.tls().is_some() {
                fixed.push(TLS.to_owned());
            }
            config.server.at.tls_cert.clone_from(&running.server.at.tls_cert);
            config.server.at.tls_key.clone_from(&running.server.at.tls_key);
        }
        descriptors::fit(&mut config, descriptors::raise());
        let renewed = [
            Certificate::configured(config.server.at.tls())?,
            Certificate::configured(config.admin.at.tls())?,
        ];
        let app = Arc::new(state.app.reloaded(config)?);
        let parts = gateway_parts(&app, Arc::clone(&self.events));
        let gateway = self.slot.load().reloaded(parts)?;
        // Everything that can fail has succeeded.
        let secrets = app.config.journal.secrets.iter().map(Secret::reveal);
        app.journal
            .redact_by(&Redactor::new(&app.config.journal.redact).knowing(secrets));
        for (certificate, next) in self.certificates.iter().zip(&renewed) {
            if let (Some(certificate), Some(next)) = (certificate, next) {
                certificate.replace(next);
            }
        }
        self.slot.store(Arc::new(gateway));
        *state = ReloadState { app, loaded };
        Ok(ReloadReport { fixed })
    }
}
