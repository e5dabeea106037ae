//! Which programs the tests find on this machine: a test that needs one that is missing is reported as ignored, and does not
//! pass silently. `BATON_REDIS=required` and `BATON_BALANCERS=required` have them run nevertheless, and fail.

use std::env;
use std::path::PathBuf;

/// The name of the condition, the programs of which one is enough, and the variable that requires it.
const PROGRAMS: [(&str, &[&str], &str); 3] = [
    ("has_redis", &["redis-server", "valkey-server"], "BATON_REDIS"),
    ("has_nginx", &["nginx"], "BATON_BALANCERS"),
    ("has_haproxy", &["haproxy"], "BATON_BALANCERS"),
];

fn main() {
    // Not PATH: it differs between shells and editors, and each change would build the crate anew.
    for variable in ["BATON_REDIS", "BATON_REDIS_SERVER", "BATON_BALANCERS"] {
        println!("cargo:rerun-if-env-changed={variable}");
    }
    println!("cargo:rerun-if-changed=build.rs");
    let own_server = env::var_os("BATON_REDIS_SERVER").is_some();
    for (condition, programs, variable) in PROGRAMS {
        println!("cargo:rustc-check-cfg=cfg({condition})");
        let required = env::var(variable).is_ok_and(|value| value == "required");
        let given = condition == "has_redis" && own_server;
        if required || given || programs.iter().any(|program| is_there(program)) {
            println!("cargo:rustc-cfg={condition}");
        }
    }
}

/// Debian puts servers in folders outside of a user's `PATH`.
fn is_there(program: &str) -> bool {
    let path = env::var_os("PATH").unwrap_or_default();
    let mut folders = env::split_paths(&path).chain(["/usr/sbin", "/usr/local/sbin"].map(PathBuf::from));
    folders.any(|folder| folder.join(program).is_file())
}
