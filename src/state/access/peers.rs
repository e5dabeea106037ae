//! Finds the address of a request's sender, and delays senders that guess client keys.

use std::collections::HashMap;
use std::net::IpAddr;
use std::str::FromStr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use http::HeaderMap;

use crate::sync::locked;

/// A range of addresses: `10.0.0.0/8`, or a single address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AddressRange {
    base: u128,
    /// Number of leading bits that an address of the range shares with `base`.
    bits: u32,
    is_v4: bool,
}

/// Returns the bits of an address as a number, and whether the address is IPv4.
///
/// The 32 bits of an IPv4 address are the highest ones, so that ranges of both versions are compared from the left.
fn number(address: IpAddr) -> (u128, bool) {
    match address.to_canonical() {
        IpAddr::V4(ip) => (u128::from(ip.to_bits()) << 96, true),
        IpAddr::V6(ip) => (ip.to_bits(), false),
    }
}

impl FromStr for AddressRange {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        let range = text.split_once('/').map(|(address, bits)| (address, Some(bits)));
        let (address, bits) = range.unwrap_or((text, None));
        let (base, is_v4) = number(address.trim().parse().map_err(drop)?);
        let most = if is_v4 { 32 } else { 128 };
        let bits = bits.map_or(Ok(most), |bits| bits.trim().parse().map_err(drop))?;
        (bits <= most).then_some(Self { base, bits, is_v4 }).ok_or(())
    }
}

impl AddressRange {
    fn contains(&self, address: IpAddr) -> bool {
        let (number, is_v4) = number(address);
        let differing = (number ^ self.base).leading_zeros();
        is_v4 == self.is_v4 && differing >= self.bits
    }
}

/// Returns the address that a request came from.
///
/// Without trusted proxies, this is the peer's address. If the peer is a trusted proxy, it is the last address in
/// `X-Forwarded-For` that is not one itself, because everything before that address may be forged.
pub fn sender(peer: IpAddr, headers: &HeaderMap, trusted: &[AddressRange]) -> IpAddr {
    let is_trusted = |address: IpAddr| trusted.iter().any(|range| range.contains(address));
    let lines = headers.get_all("x-forwarded-for").iter().rev();
    let given = lines.flat_map(|line| line.to_str().unwrap_or_default().rsplit(','));
    let mut sender = peer.to_canonical();
    for address in given.map(|text| text.trim().parse::<IpAddr>()) {
        match address {
            Ok(address) if is_trusted(sender) => sender = address.to_canonical(),
            _ => break,
        }
    }
    sender
}

/// Number of wrong keys from one address within [`WINDOW`] that are refused without a delay.
const MAX_WRONG: u32 = 10;

const WINDOW: Duration = Duration::from_secs(60);

/// Delay of a refusal. A program that tries keys has to wait, and a user with a wrong key hardly notices.
const DELAY: Duration = Duration::from_secs(2);

/// Maximum number of addresses remembered. Beyond it new ones are not delayed.
const MAX_ADDRESSES: usize = 4096;

/// Network of one sender: an IPv4 address, or the first 64 bits of an IPv6 address. The rest it chooses itself.
pub type Network = (u128, bool);

/// Returns the network of an address.
pub fn network(address: IpAddr) -> Network {
    let (number, is_v4) = number(address);
    (number >> 64, is_v4)
}

/// Counts of wrong keys by network.
#[derive(Default)]
pub struct WrongKeys(Mutex<HashMap<Network, (Instant, u32)>>);

impl WrongKeys {
    /// Counts a wrong key. Returns how long its refusal has to wait.
    pub fn note(&self, sender: IpAddr) -> Duration {
        let sender = network(sender);
        let mut all = locked(&self.0);
        if all.len() >= MAX_ADDRESSES {
            all.retain(|_, (since, _)| since.elapsed() < WINDOW);
        }
        if all.len() >= MAX_ADDRESSES && !all.contains_key(&sender) {
            return Duration::ZERO;
        }
        let (since, count) = all.entry(sender).or_insert_with(|| (Instant::now(), 0));
        if since.elapsed() >= WINDOW {
            (*since, *count) = (Instant::now(), 0);
        }
        *count += 1;
        match *count > MAX_WRONG {
            true => DELAY,
            false => Duration::ZERO,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ip(text: &str) -> IpAddr {
        text.parse().unwrap()
    }

    #[test]
    fn ranges_contain_their_addresses() {
        for (range, address, expected) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.1.2.3", true),
            ("192.0.2.7", "192.0.2.7", true),
            ("192.0.2.7", "192.0.2.8", false),
            ("0.0.0.0/0", "192.0.2.8", true),
            ("0.0.0.0/0", "::1", false),
            ("fd00::/8", "fd12::1", true),
            ("fd00::/8", "fe00::1", false),
        ] {
            let parsed: AddressRange = range.parse().unwrap();
            assert_eq!(parsed.contains(ip(address)), expected, "{range} {address}");
        }
        for wrong in ["", "10.0.0.0/33", "10.0.0/8", "::/129", "host"] {
            assert!(wrong.parse::<AddressRange>().is_err(), "{wrong}");
        }
    }

    #[test]
    fn a_forged_address_is_not_believed() {
        let trusted = ["10.0.0.0/8".parse().unwrap()];
        let from = |peer: &str, lines: &[&str]| {
            let mut headers = HeaderMap::new();
            for line in lines {
                headers.append("x-forwarded-for", line.parse().unwrap());
            }
            sender(ip(peer), &headers, &trusted).to_string()
        };
        assert_eq!(from("192.0.2.1", &["203.0.113.9"]), "192.0.2.1", "not a proxy");
        assert_eq!(from("10.0.0.1", &["203.0.113.9"]), "203.0.113.9");
        assert_eq!(
            from("10.0.0.1", &["1.2.3.4, 203.0.113.9"]),
            "203.0.113.9",
            "the client's own"
        );
        assert_eq!(
            from("10.0.0.1", &["1.2.3.4", "203.0.113.9, 10.0.0.2"]),
            "203.0.113.9"
        );
        assert_eq!(from("10.0.0.1", &["unknown"]), "10.0.0.1");
        assert_eq!(from("10.0.0.1", &[]), "10.0.0.1");
    }

    #[test]
    fn the_eleventh_wrong_key_waits_and_other_addresses_do_not() {
        let wrong = WrongKeys::default();
        for _ in 0..MAX_WRONG {
            assert_eq!(wrong.note(ip("192.0.2.1")), Duration::ZERO);
        }
        assert_eq!(wrong.note(ip("192.0.2.1")), DELAY);
        assert_eq!(wrong.note(ip("192.0.2.2")), Duration::ZERO);
        for host in 0..10 {
            assert_eq!(wrong.note(ip(&format!("2001:db8::{host}"))), Duration::ZERO);
        }
        assert_eq!(wrong.note(ip("2001:db8::ffff")), DELAY, "one network");
        assert_eq!(wrong.note(ip("2001:db8:0:1::1")), Duration::ZERO);
    }
}
